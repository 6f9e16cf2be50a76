// SHA-256 and HMAC against the answers of FIPS 180-4 and RFC 4231.
#include "base/sha256.hpp"

#include "support.hpp"

using namespace holdfast;

namespace {

std::string hex(const Digest& digest) {
    std::string text;
    for (unsigned char byte : digest) {
        text.push_back("0123456789abcdef"[byte >> 4]);
        text.push_back("0123456789abcdef"[byte & 15]);
    }
    return text;
}

}  // namespace

TEST_CASE("sha256 gives the answers of FIPS 180-4") {
    CHECK(hex(sha256("")) == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    CHECK(hex(sha256("abc")) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    CHECK(hex(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")) ==
          "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    CHECK(hex(sha256(std::string(1'000'000, 'a'))) ==
          "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("hmac_sha256 gives the answers of RFC 4231") {
    CHECK(hex(hmac_sha256(std::string(20, '\x0b'), "Hi There")) ==
          "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    CHECK(hex(hmac_sha256("Jefe", "what do ya want for nothing?")) ==
          "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    CHECK(hex(hmac_sha256(std::string(20, '\xaa'), std::string(50, '\xdd'))) ==
          "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
    CHECK(hex(hmac_sha256(std::string(131, '\xaa'),
                          "Test Using Larger Than Block-Size Key - Hash Key First")) ==
          "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST_CASE("digests that differ anywhere are not equal") {
    Digest digest = sha256("x");
    CHECK(equal_digests(digest, digest));
    for (std::size_t i = 0; i < digest.size(); ++i) {
        Digest other = digest;
        other[i] ^= 0x80;
        CHECK_FALSE(equal_digests(digest, other));
    }
}
