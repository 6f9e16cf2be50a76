#include "base/hmac.hpp"

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <string>

namespace holdfast {
namespace {

// OpenSSL would free its state when the process exits, and threads that still dial would crash it.
void keep_until_the_end() {
    [[maybe_unused]] static const int kept = OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, nullptr);
}

Status failure() {
    const char* reason = ERR_reason_error_string(ERR_peek_error());
    std::string why = reason ? reason : "no reason given";
    ERR_clear_error();  // or another user of OpenSSL in this thread takes it for its own
    return Status(Code::HoldfastError, "OpenSSL has no HMAC-SHA256 (" + why +
                                           "); look at its configuration, OPENSSL_CONF");
}

}  // namespace

Result<Digest> hmac_sha256(std::string_view key, std::string_view data) {
    keep_until_the_end();
    Digest digest;
    if (!HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
              reinterpret_cast<const unsigned char*>(data.data()), data.size(), digest.data(),
              nullptr))
        return failure();
    return digest;
}

bool equal_digests(const Digest& a, const Digest& b) {
    return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace holdfast
