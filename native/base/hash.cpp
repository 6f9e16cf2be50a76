#include "base/hash.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace holdfast {

std::uint64_t xxh3_64(std::string_view data, std::uint64_t seed) {
    return XXH3_64bits_withSeed(data.data(), data.size(), seed);
}

std::string xxh3_128_hex(std::string_view data) {
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits(data.data(), data.size()));
    static constexpr char digits[] = "0123456789abcdef";
    std::string hex;
    hex.reserve(2 * sizeof canonical.digest);
    for (unsigned char byte : canonical.digest) {
        hex.push_back(digits[byte >> 4]);
        hex.push_back(digits[byte & 15]);
    }
    return hex;
}

}  // namespace holdfast
