// Who may connect. Over TCP both sides prove that they hold the job key before anything else is
// read; over a Unix socket the kernel tells who the peer is.
//
//     server -> client   challenge: "HLDF" version zero*3, nonce (32 bytes)
//     client -> server   answer: nonce (32 bytes), HMAC(key, "client" + both nonces)
//     server -> client   proof: HMAC(key, "server" + both nonces); zeros if it does not trust us
//
// Pure functions but for the nonces, which come from the kernel.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "base/hmac.hpp"
#include "base/status.hpp"

namespace holdfast {

using Nonce = std::array<std::uint8_t, 32>;

constexpr std::size_t kChallengeBytes = 8 + sizeof(Nonce);
constexpr std::size_t kAnswerBytes = sizeof(Nonce) + sizeof(Digest);
constexpr std::size_t kProofBytes = sizeof(Digest);
constexpr std::size_t kKeyBytes = 32;

Nonce fresh_nonce();

void encode_challenge(const Nonce& server, char* out);
Result<Nonce> decode_challenge(const char* in);

Result<Digest> client_proof(std::string_view key, const Nonce& server, const Nonce& client);
Result<Digest> server_proof(std::string_view key, const Nonce& server, const Nonce& client);

// Whether the process at the other end of a Unix socket belongs to the same user as this one.
Status check_peer_uid(int socket);

}  // namespace holdfast
