// The frame's header: what is written is read back, and every broken limit has its refusal.
#include "rpc/frame.hpp"

#include <random>

#include "support.hpp"

using namespace holdfast;

namespace {

std::string encoded(const Header& header, std::string_view meta = {}) {
    std::string out(kHeaderBytes, '\0');
    encode_header(header, meta, out.data());
    return out;
}

std::string refusal(const std::string& header) {
    auto decoded = decode_header(header.data());
    return decoded.ok() ? "" : decoded.status().message();
}

std::string with(std::size_t at, unsigned char byte) {
    std::string header = encoded({});
    header[at] = static_cast<char>(byte);
    return header;
}

}  // namespace

TEST_CASE("a header is read back as it was written") {
    std::mt19937_64 random(1);
    for (int round = 0; round < 1000; ++round) {
        std::string meta = test::random_bytes(random() % 100, random());
        Header header;
        std::uint8_t op = 0;
        while (!is_op(op)) op = static_cast<std::uint8_t>(random() % (kLastOp + 1));
        header.op = static_cast<Op>(op);
        header.flags = static_cast<std::uint16_t>(random() & kAllFlags);
        header.status = static_cast<Code>(random() % (kLastCode + 1));
        header.request = random();
        header.body_bytes = random() % (kMaxBody + 1);
        header.body_crc = static_cast<std::uint32_t>(random());
        header.deadline_ms = static_cast<std::uint32_t>(random());
        std::string bytes = encoded(header, meta);
        auto decoded = decode_header(bytes.data());
        REQUIRE(decoded.ok());
        CHECK(decoded->op == header.op);
        CHECK(decoded->flags == header.flags);
        CHECK(decoded->status == header.status);
        CHECK(decoded->meta_bytes == meta.size());
        CHECK(decoded->request == header.request);
        CHECK(decoded->body_bytes == header.body_bytes);
        CHECK(decoded->body_crc == header.body_crc);
        CHECK(decoded->deadline_ms == header.deadline_ms);
        CHECK(head_is_whole(bytes.data(), meta));
    }
}

TEST_CASE("a header that breaks a rule is refused, with the reason") {
    CHECK(refusal(with(0, 'X')) == "malformed frame: wrong magic");
    CHECK(refusal(with(4, 9)) == "malformed frame: version 9, not 1");
    CHECK(refusal(with(5, 0)) == "malformed frame: unknown operation 0");
    CHECK(refusal(with(5, 4)) == "malformed frame: unknown operation 4");
    CHECK(refusal(with(5, 22)) == "malformed frame: unknown operation 22");
    CHECK(refusal(with(5, 200)) == "malformed frame: unknown operation 200");
    CHECK(refusal(with(7, 0x80)) == "malformed frame: unknown flags");
    CHECK(refusal(with(9, 1)) == "malformed frame: unknown status 256");
    CHECK(refusal(with(10, 1)) == "malformed frame: a field that must be zero is not");
    CHECK(refusal(with(47, 1)) == "malformed frame: a field that must be zero is not");
    CHECK(refusal(with(15, 1)) == "malformed frame: meta of 16777216 bytes");
    Header header;
    header.body_bytes = kMaxBody + 1;
    CHECK(refusal(encoded(header)) == "malformed frame: body of 1099511627777 bytes");
}

TEST_CASE("any flipped bit of header or meta is noticed") {
    std::string meta = "some meta";
    std::string bytes = encoded({}, meta) + meta;
    for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
        std::string flipped = bytes;
        flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
        bool taken = decode_header(flipped.data()).ok() &&
                     head_is_whole(flipped.data(), flipped.substr(kHeaderBytes));
        CHECK_FALSE(taken);
    }
}
