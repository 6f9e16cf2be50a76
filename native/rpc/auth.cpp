#include "rpc/auth.hpp"

#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

#include "rpc/frame.hpp"

namespace holdfast {
namespace {

Result<Digest> proof(std::string_view role, std::string_view key, const Nonce& server,
                     const Nonce& client) {
    std::string text(role);
    text.append(reinterpret_cast<const char*>(server.data()), server.size());
    text.append(reinterpret_cast<const char*>(client.data()), client.size());
    return hmac_sha256(key, text);
}

constexpr char kPreamble[8] = {'H', 'L', 'D', 'F', kVersion, 0, 0, 0};

}  // namespace

Nonce fresh_nonce() {
    Nonce nonce;
    // Up to 256 bytes come whole or not at all; without randomness there is no safe way on.
    if (::getrandom(nonce.data(), nonce.size(), 0) != static_cast<ssize_t>(nonce.size()))
        std::abort();
    return nonce;
}

void encode_challenge(const Nonce& server, char* out) {
    std::memcpy(out, kPreamble, sizeof kPreamble);
    std::memcpy(out + sizeof kPreamble, server.data(), server.size());
}

Result<Nonce> decode_challenge(const char* in) {
    if (std::memcmp(in, kPreamble, sizeof kPreamble) != 0)
        return Status(Code::Damaged, "the listener is not an agent of this version");
    Nonce nonce;
    std::memcpy(nonce.data(), in + sizeof kPreamble, nonce.size());
    return nonce;
}

Result<Digest> client_proof(std::string_view key, const Nonce& server, const Nonce& client) {
    return proof("client", key, server, client);
}

Result<Digest> server_proof(std::string_view key, const Nonce& server, const Nonce& client) {
    return proof("server", key, server, client);
}

Status check_peer_uid(int socket) {
    ucred peer{};
    socklen_t size = sizeof peer;
    if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
        return system_failure(Code::Refused, "cannot tell who owns the socket", errno);
    if (peer.uid != ::geteuid())
        return Status(Code::Refused, "the other end belongs to user " + std::to_string(peer.uid) +
                                         ", not to " + std::to_string(::geteuid()));
    return {};
}

}  // namespace holdfast
