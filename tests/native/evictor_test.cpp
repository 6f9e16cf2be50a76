// Which object goes: those used again stay, one scan does not push them out.
#include "store/evictor.hpp"

#include <set>

#include "support.hpp"

using namespace holdfast;

namespace {

std::string key(const char* kind, int i) {
    return kind + std::to_string(i);
}

// A cache of `most` objects of one byte, as the store drives it.
struct Cache {
    Evictor evictor;
    std::set<std::string> held;
    const std::size_t most;

    explicit Cache(std::size_t objects) : most(objects) {}

    bool use(const std::string& name) {
        if (held.contains(name)) {
            evictor.touch(name);
            return true;
        }
        while (held.size() >= most) {
            auto victim = evictor.choose();
            REQUIRE(victim.has_value());
            REQUIRE(held.erase(*victim) == 1);
        }
        evictor.insert(name, 1);
        held.insert(name);
        return false;
    }
};

}  // namespace

TEST_CASE("a scan through a large set leaves what is in use alone") {
    Cache cache(100);
    for (int round = 0; round < 4; ++round)
        for (int i = 0; i < 80; ++i) cache.use(key("hot", i));
    for (int i = 0; i < 1000; ++i) {
        cache.use(key("scan", i));
        if (i % 10 == 0) cache.use(key("hot", i / 10 % 80));
    }
    int kept = 0;
    for (int i = 0; i < 80; ++i) kept += cache.held.contains(key("hot", i));
    CHECK(kept >= 75);
}

TEST_CASE("one that left and comes back is kept longer") {
    Cache cache(20);
    for (int i = 0; i < 20; ++i) cache.use(key("first", i));
    cache.use("one more");  // pushes out the oldest
    REQUIRE_FALSE(cache.held.contains("first0"));
    cache.use("first0");
    for (int i = 0; i < 200; ++i) cache.use(key("scan", i));
    CHECK(cache.held.contains("first0"));
}

TEST_CASE("every object goes once, and then there is none to choose") {
    Evictor evictor;
    std::uint64_t bytes = 0;
    for (int i = 0; i < 50; ++i) {
        evictor.insert(key("k", i), static_cast<std::uint64_t>(i));
        bytes += static_cast<std::uint64_t>(i);
        for (int use = 0; use < i % 6; ++use) evictor.touch(key("k", i));
    }
    CHECK(evictor.bytes() == bytes);
    evictor.erase("k7");
    evictor.erase("k7");
    evictor.erase("never there");
    CHECK(evictor.bytes() == bytes - 7);
    std::set<std::string> gone;
    while (auto victim = evictor.choose()) CHECK(gone.insert(*victim).second);
    CHECK(gone.size() == 49);
    CHECK_FALSE(gone.contains("k7"));
    CHECK(evictor.bytes() == 0);
}

TEST_CASE("an object inserted again counts once") {
    Evictor evictor;
    evictor.insert("k", 10);
    evictor.insert("k", 30);
    CHECK(evictor.bytes() == 30);
    CHECK(evictor.choose() == "k");
    CHECK_FALSE(evictor.choose().has_value());
}
