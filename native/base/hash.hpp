// XXH3, the one hash of the project: 64 bits for positions on the ring, 128 for names of files.
// Thread-safe, never blocks, allocates only the returned string.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace holdfast {

std::uint64_t xxh3_64(std::string_view data, std::uint64_t seed = 0);

// 32 lower-case hexadecimal digits, most significant first (the canonical form of XXH128).
std::string xxh3_128_hex(std::string_view data);

}  // namespace holdfast
