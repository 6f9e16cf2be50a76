#include "rpc/frame.hpp"

#include <cstring>
#include <string>

#include "base/crc32c.hpp"

namespace holdfast {
namespace {

constexpr std::size_t kHeadCrcAt = 40;

template <typename T>
void put(char* out, std::size_t at, T value) {
    for (std::size_t i = 0; i < sizeof(T); ++i)
        out[at + i] = static_cast<char>(static_cast<std::uint64_t>(value) >> (8 * i));
}

template <typename T>
T take(const char* in, std::size_t at) {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < sizeof(T); ++i)
        value |= std::uint64_t{static_cast<unsigned char>(in[at + i])} << (8 * i);
    return static_cast<T>(value);
}

std::uint32_t head_crc(const char* header, std::string_view meta) {
    return crc32c(crc32c(0, header, kHeadCrcAt), meta.data(), meta.size());
}

Status malformed(const std::string& reason) {
    return Status(Code::Damaged, "malformed frame: " + reason);
}

}  // namespace

void encode_header(Header header, std::string_view meta, char* out) {
    put(out, 0, kMagic);
    put(out, 4, kVersion);
    put(out, 5, static_cast<std::uint8_t>(header.op));
    put(out, 6, header.flags);
    put(out, 8, static_cast<std::uint16_t>(header.status));
    put(out, 10, std::uint16_t{0});
    put(out, 12, static_cast<std::uint32_t>(meta.size()));
    put(out, 16, header.request);
    put(out, 24, header.body_bytes);
    put(out, 32, header.body_crc);
    put(out, 36, header.deadline_ms);
    put(out, kHeadCrcAt, head_crc(out, meta));
    put(out, 44, std::uint32_t{0});
}

Result<Header> decode_header(const char* in) {
    if (take<std::uint32_t>(in, 0) != kMagic) return malformed("wrong magic");
    auto version = take<std::uint8_t>(in, 4);
    if (version != kVersion)
        return malformed("version " + std::to_string(version) + ", not " +
                         std::to_string(kVersion));
    auto op = take<std::uint8_t>(in, 5);
    if (!is_op(op)) return malformed("unknown operation " + std::to_string(op));
    auto status = take<std::uint16_t>(in, 8);
    if (status > kLastCode) return malformed("unknown status " + std::to_string(status));
    if (take<std::uint16_t>(in, 10) != 0 || take<std::uint32_t>(in, 44) != 0)
        return malformed("a field that must be zero is not");

    Header header;
    header.op = static_cast<Op>(op);
    header.status = static_cast<Code>(status);
    header.flags = take<std::uint16_t>(in, 6);
    header.meta_bytes = take<std::uint32_t>(in, 12);
    header.request = take<std::uint64_t>(in, 16);
    header.body_bytes = take<std::uint64_t>(in, 24);
    header.body_crc = take<std::uint32_t>(in, 32);
    header.deadline_ms = take<std::uint32_t>(in, 36);
    if (header.flags & ~kAllFlags) return malformed("unknown flags");
    if (header.meta_bytes > kMaxMeta)
        return malformed("meta of " + std::to_string(header.meta_bytes) + " bytes");
    if (header.body_bytes > kMaxBody)
        return malformed("body of " + std::to_string(header.body_bytes) + " bytes");
    return header;
}

bool head_is_whole(const char* header, std::string_view meta) {
    return take<std::uint32_t>(header, kHeadCrcAt) == head_crc(header, meta);
}

}  // namespace holdfast
