// The frame: a header of 48 bytes, a small `meta` (key, owners, ...), and an optional body.
//
//      0 magic u32 | 4 version u8 | 5 operation u8 | 6 flags u16
//      8 status u16 | 10 zero u16 | 12 meta bytes u32
//     16 request u64 | 24 body bytes u64
//     32 body CRC-32C u32 | 36 deadline in ms u32 | 40 CRC-32C of header and meta u32 | 44 zero u32
//
// All numbers are little-endian. With kCrcFollows the checksum of the body comes in four bytes
// after it and the header's field is zero. Pure functions: no I/O, no allocation beyond what is
// returned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/status.hpp"

namespace holdfast {

constexpr std::uint32_t kMagic = 0x46444c48;  // "HLDF"
constexpr std::uint8_t kVersion = 1;
constexpr std::size_t kHeaderBytes = 48;
constexpr std::size_t kMaxMeta = 64 << 10;
constexpr std::uint64_t kMaxBody = 1ull << 40;
constexpr std::uint64_t kMaxMessage = 16 << 20;  // a body that is held in memory whole
constexpr std::size_t kTrailerBytes = 4;

enum class Op : std::uint8_t {
    Put = 1,
    Get = 2,
    Read = 3,
    Stat = 5,
    List = 6,
    Drop = 7,
    DropBelow = 8,
    Verify = 9,
    Call = 10,
    Probe = 11,
    Open = 12,
    Attributes = 13,
    Warm = 14,
    Invalidate = 15,
    Tree = 16,
    Wait = 17,    // a call that may be answered late, beside others on one connection
    Cancel = 18,  // nobody waits for that answer any more
    Hand = 19,
    Seal = 20,
    Boxes = 21,
};
constexpr std::uint8_t kLastOp = 21;
// 4 is not in use.
constexpr bool is_op(std::uint8_t number) {
    return number >= 1 && number <= kLastOp && number != 4;
}

enum Flag : std::uint16_t {
    kReply = 1,
    kCrcFollows = 2,
    kDescriptor = 4,  // request: a descriptor is welcome; reply: one comes with it
    kAskFirst = 8,    // request: the body is sent only after a reply with kGoOn
    kGoOn = 16,
    kAllFlags = 31,
};

struct Header {
    Op op = Op::Get;
    std::uint16_t flags = 0;
    Code status = Code::Ok;
    std::uint32_t meta_bytes = 0;
    std::uint64_t request = 0;
    std::uint64_t body_bytes = 0;
    std::uint32_t body_crc = 0;
    std::uint32_t deadline_ms = 0;  // how long the sender waits for a sign of life

    bool has(Flag flag) const { return (flags & flag) != 0; }
};

// Writes kHeaderBytes to `out`; header.meta_bytes is taken from `meta`.
void encode_header(Header header, std::string_view meta, char* out);

// Reads kHeaderBytes; refuses what breaks a limit, with the reason.
Result<Header> decode_header(const char* in);

// Whether header and meta arrived as they were sent.
bool head_is_whole(const char* header, std::string_view meta);

}  // namespace holdfast
