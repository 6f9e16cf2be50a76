// CRC-32C: the published answers (RFC 3720 B.4), and that it can be computed in any pieces.
#include "base/crc32c.hpp"

#include <random>

#include "support.hpp"

using namespace holdfast;

TEST_CASE("crc32c gives the published answers") {
    CHECK(crc32c(0, "", 0) == 0);
    CHECK(crc32c(0, "123456789", 9) == 0xe3069283);
    CHECK(crc32c(0, std::string(32, '\0').data(), 32) == 0x8a9136aa);
    CHECK(crc32c(0, std::string(32, '\xff').data(), 32) == 0x62a8ab43);
    std::string up, down;
    for (int i = 0; i < 32; ++i) {
        up.push_back(static_cast<char>(i));
        down.push_back(static_cast<char>(31 - i));
    }
    CHECK(crc32c(0, up.data(), up.size()) == 0x46dd794e);
    CHECK(crc32c(0, down.data(), down.size()) == 0x113fdb5c);
}

TEST_CASE("crc32c of long inputs equals the bit-by-bit definition") {
    // Long enough for every stream width of the fast form, with odd ends and odd starts.
    std::string bytes = test::random_bytes(40'000, 1);
    for (std::size_t start : {0u, 1u, 7u}) {
        std::uint32_t slow = ~0u;
        for (std::size_t i = start; i < bytes.size(); ++i) {
            slow ^= static_cast<unsigned char>(bytes[i]);
            for (int bit = 0; bit < 8; ++bit) slow = (slow >> 1) ^ (slow & 1 ? 0x82f63b78 : 0);
        }
        CHECK(crc32c(0, bytes.data() + start, bytes.size() - start) == ~slow);
    }
}

TEST_CASE("crc32c of pieces, continued or joined, is that of the whole") {
    std::mt19937_64 random(2);
    std::string bytes = test::random_bytes(100'000, 3);
    for (int round = 0; round < 300; ++round) {
        std::size_t size = random() % (round % 3 == 0 ? 100 : bytes.size());
        std::size_t cut = size == 0 ? 0 : random() % (size + 1);
        std::uint32_t whole = crc32c(0, bytes.data(), size);
        std::uint32_t first = crc32c(0, bytes.data(), cut);
        std::uint32_t second = crc32c(0, bytes.data() + cut, size - cut);
        CHECK(crc32c(first, bytes.data() + cut, size - cut) == whole);
        CHECK(crc32c_join(first, second, size - cut) == whole);
    }
}
