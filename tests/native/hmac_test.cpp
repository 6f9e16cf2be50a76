// HMAC against the answers of RFC 4231, and to the end of a process.
#include "base/hmac.hpp"

#include <unistd.h>

#include <cstdlib>
#include <iostream>

#include "support.hpp"

using namespace holdfast;
using namespace holdfast::test;

namespace {

// Registered before main, so that it runs after whatever OpenSSL registers.
bool ask_at_exit = false;
const int registered = std::atexit([] {
    if (ask_at_exit) ::_exit(hmac_sha256("key", "data").ok() ? 0 : 1);
});

}  // namespace

TEST_CASE("hmac_sha256 gives the answers of RFC 4231") {
    CHECK(hex(*hmac_sha256(std::string(20, '\x0b'), "Hi There")) ==
          "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    CHECK(hex(*hmac_sha256("Jefe", "what do ya want for nothing?")) ==
          "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    CHECK(hex(*hmac_sha256(std::string(20, '\xaa'), std::string(50, '\xdd'))) ==
          "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
    CHECK(hex(*hmac_sha256(std::string(131, '\xaa'),
                           "Test Using Larger Than Block-Size Key - Hash Key First")) ==
          "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST_CASE("digests that differ anywhere are not equal") {
    Digest digest = *hmac_sha256("key", "x");
    CHECK(equal_digests(digest, digest));
    for (std::size_t i = 0; i < digest.size(); ++i) {
        Digest other = digest;
        other[i] ^= 0x80;
        CHECK_FALSE(equal_digests(digest, other));
    }
}

TEST_CASE("threads that still dial while the process exits have their proofs") {
    REQUIRE(registered == 0);
    std::cout.flush();  // or the child writes it, too
    int code = in_child([]() -> int {
        if (!hmac_sha256("key", "data").ok()) return 2;
        ask_at_exit = true;
        std::exit(3);
    });
    CHECK(code == 0);
}
