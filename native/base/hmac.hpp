// HMAC-SHA256 by OpenSSL, for the proof that a connection holds the job key.
// Thread-safe. The first call in a process reads OpenSSL's configuration; later ones never block.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "base/status.hpp"

namespace holdfast {

using Digest = std::array<std::uint8_t, 32>;

// Fails where OpenSSL's configuration leaves out the algorithm.
Result<Digest> hmac_sha256(std::string_view key, std::string_view data);

// Compares in a time that does not depend on where they differ.
bool equal_digests(const Digest& a, const Digest& b);

}  // namespace holdfast
