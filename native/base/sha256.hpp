// SHA-256 and HMAC, for the proof that a connection holds the job key.
// Thread-safe, never blocks. Tested against hashlib and hmac for arbitrary input.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace holdfast {

using Digest = std::array<std::uint8_t, 32>;

Digest sha256(std::string_view data);
Digest hmac_sha256(std::string_view key, std::string_view data);

// Compares in a time that does not depend on where they differ.
bool equal_digests(const Digest& a, const Digest& b);

}  // namespace holdfast
