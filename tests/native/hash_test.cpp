// XXH3: answers of the reference implementation, so that names and rings never change silently.
#include "base/hash.hpp"

#include "support.hpp"

using namespace holdfast;

TEST_CASE("xxh3 gives the reference answers") {
    CHECK(xxh3_64("") == 0x2d06800538d394c2);
    CHECK(xxh3_64("", 1) == 0x4dc5b0cc826f6703);
    CHECK(xxh3_64("holdfast") == 0x4ddf46ebd3ad850b);
    CHECK(xxh3_128_hex("") == "99aa06d3014798d86001c324468d497f");
    CHECK(xxh3_128_hex("abc") == "06b05ab6733a618578af5f94892f3950");
    CHECK(xxh3_128_hex("holdfast") == "d725ef720e130d9fdf1a3c122ca59e45");
    CHECK(xxh3_128_hex(std::string(1000, 'a')) == "b01da365eddaa29cb3e7af627147db7c");
}
