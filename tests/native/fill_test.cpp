// Fills by themselves: one however many join, good only if nothing changed, kept if wanted.
#include "files/fill.hpp"

#include <sys/resource.h>
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
            return FillOrder{key, std::move(*found), Tier::Memory,
                             2,   what != Unwanted,  [&] { ++kept; }};
        };
        auto growing = fills.join(source(), kDeadline);
        REQUIRE(growing.ok());
        auto joined = fills.join(source(), kDeadline);
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

TEST_CASE("a fill that gets no thread fails, and the next one is another") {
    int code = in_child_as_nobody([] {
        rlimit limit{};
        ::getrlimit(RLIMIT_NPROC, &limit);
        rlimit none{0, limit.rlim_max};
        ::setrlimit(RLIMIT_NPROC, &none);
        StoreDir place;
        TempDir shared;
        write_file(shared / "file", random_bytes(1'000'000, 1));
        Pool pool(1, 4);
        Fills fills(*place.store, pool, 0);
        auto join = [&] {
            auto found = resolve({shared.path(), shared / "file"});
            return fills.join({.key = "key", .place = std::move(*found)}, kDeadline);
        };
        auto first = join();
        if (!first.ok() || wait_until_whole(**first, 1s).code() != Code::NotCached) return 1;
        if (place.store->usage(Tier::Memory).reserved != 0) return 2;
        ::setrlimit(RLIMIT_NPROC, &limit);
        auto second = join();
        if (!second.ok() || !wait_until_whole(**second, kDeadline).ok()) return 3;
        pool.stop();
        return place.store->find("key") ? 0 : 4;
    });
    CHECK(code == 0);
}

TEST_CASE("a fill that is dropped with its pool fails") {
    StoreDir place;
    TempDir shared;
    write_file(shared / "file", random_bytes(1'000'000, 1));
    Pool pool(1, 1);
    Fills fills(*place.store, pool, 0);
    std::latch gate(1), waits(1);
    std::shared_ptr<Growing> fill;
    Status status;
    pool.run(0, [&] {
        gate.wait();
        waits.count_down();
        status = wait_until_whole(*fill, kDeadline);  // also one who runs meanwhile learns of it
    });
    auto found = resolve({shared.path(), shared / "file"});
    REQUIRE(found.ok());
    auto joined = fills.join({.key = "key", .place = std::move(*found)}, kDeadline);
    REQUIRE(joined.ok());
    fill = *joined;
    gate.count_down();
    waits.wait();
    pool.stop();
    CHECK(status.code() == Code::NotCached);
    CHECK(place.store->usage(Tier::Memory).reserved == 0);
}
