// Fills by themselves: one however many join, good only if nothing changed, kept if wanted.
#include "files/fill.hpp"

#include <unistd.h>

#include <latch>

#include "support.hpp"

using namespace holdfast;
using namespace holdfast::test;

TEST_CASE("what changed between the first look and the last byte fails and is not kept") {
    StoreDir place;
    TempDir shared;
    std::string bytes = random_bytes(1'000'000, 1), path = shared / "file";
    enum { Untouched, Rewritten, Shortened, Unwanted };
    for (int what : {Untouched, Rewritten, Shortened, Unwanted}) {
        write_file(path, bytes);
        Pool pool(1, 1);
        Fills fills(*place.store, pool, 0);
        std::latch gate(1);
        pool.run(0, [&] { gate.wait(); });  // the fill opens its source, and reads it later
        std::string key = "key" + std::to_string(what);
        int kept = 0;
        auto source = [&] {
            auto found = resolve({shared.path(), path});
            REQUIRE(found.ok());
            return Source{key, std::move(*found), Tier::Memory,
                          2,   what != Unwanted,  [&] { ++kept; }};
        };
        auto growing = fills.join(source(), kPatience);
        REQUIRE(growing.ok());
        auto joined = fills.join(source(), kPatience);
        CHECK((joined.ok() && *joined == *growing));
        if (what == Rewritten) write_file(path, random_bytes(bytes.size(), 2));
        if (what == Shortened) REQUIRE(::truncate(path.c_str(), 1000) == 0);
        gate.count_down();
        CHECK(eventually([&] { return (*growing)->progress().ended; }));
        auto progress = (*growing)->progress();
        CHECK(progress.failed == (what == Shortened || what == Rewritten));
        if (what == Untouched || what == Unwanted)
            CHECK(progress.crc == crc32c(0, bytes.data(), bytes.size()));
        pool.stop();
        CHECK(kept == (what == Untouched));
        ObjectPtr object = place.store->find(key);
        CHECK((object != nullptr) == (what == Untouched));
        if (object) CHECK((object->has_source && object->copies == 2 && !object->in_heap));
        CHECK(place.store->usage(Tier::Memory).reserved == 0);
    }
    CHECK(files_in(place.tier(Tier::Memory)) == 1);
}
