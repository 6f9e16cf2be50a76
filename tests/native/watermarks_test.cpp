// Rule 9, versions that were dropped all at once.
#include "store/watermarks.hpp"

#include <algorithm>
#include <atomic>
#include <numeric>
#include <random>
#include <thread>
#include <utility>

#include "store/object_index.hpp"
#include "support.hpp"

using namespace holdfast;
using namespace holdfast::test;

namespace {

Notice notice(const std::string& prefix, std::uint64_t version) {
    return {Topic::Watermark, Watermark{prefix, version}.encode()};
}

void store(ObjectIndex& index, const std::string& key) {
    auto object = std::make_shared<Object>();
    object->key = key;
    object->copies = 2;
    REQUIRE(index.reserve(key, 0).ok());
    REQUIRE(index.publish(object).ok());
}

}  // namespace

TEST_CASE("rule 9: a watermark drops the versions below it and nothing else") {
    Watermark mark{"run/T/", 12};
    for (std::string key : {"run/T/11", "run/T/0", "run/T/0003/block", "run/T/11/", "run/T/7/8/9"})
        CHECK(mark.covers(key));
    for (std::string key :
         {"run/T/12", "run/T/12/block", "run/T/100", "run/T/x", "run/T/", "run/T", "run/T/11x",
          "run/T/11.npy", "run/T/-1", "run/T/+1", "run/T/ 1", "run/S/1", "other/run/T/1",
          "run/T/18446744073709551616", "run/T/99999999999999999999999"})
        CHECK_FALSE(mark.covers(key));
    Watermarks marks;
    CHECK(marks.over("run/T/11") == nullptr);
    marks.raise(mark);
    marks.raise({"frame-", 3});
    CHECK(marks.over("run/T/11")->prefix == "run/T/");
    CHECK(marks.over("frame-2")->version == 3);
    CHECK(marks.over("run/T/12/frame-2") == nullptr);
    CHECK(marks.over("frame-") == nullptr);
    CHECK(marks.over("") == nullptr);
    for (std::string prefix : {"", "run/T/1", "7"}) {
        CHECK(Watermark{prefix, 5}.check().code() == Code::BadInput);
        CHECK_FALSE(Watermark::decode(Watermark{prefix, 5}.encode()));
    }
    CHECK_FALSE(Watermark::decode("short"));
    CHECK(Watermark{std::string(kMaxKey + 1, 'x'), 5}.check().code() == Code::BadInput);
}

TEST_CASE("rule 9: members that forget watermarks agree with one that keeps all, in any order") {
    std::mt19937_64 random(7);
    std::vector<std::string> prefixes = {"a/", "b/", "a/1/", "a/1/x", "a/3/", "a/3/4/", "b/2/c/"};
    for (int round = 0; round < 200; ++round) {
        std::vector<Watermark> all;
        for (int i = 0; i < 12; ++i) all.push_back({prefixes[random() % 7], random() % 6});
        std::uint64_t digest = 0, count = 0;
        for (int order = 0; order < 4; ++order) {
            std::ranges::shuffle(all, random);
            ObjectIndex index;
            for (auto& mark : all) index.learn(notice(mark.prefix, mark.version));
            if (order == 0) digest = index.notices().digest(), count = index.notices().count();
            CHECK(index.notices().digest() == digest);
            CHECK(index.notices().count() == count);
            for (std::string key : {"a/0", "a/1/2", "a/1/x3", "a/3/1/y", "a/3/4/2", "b/2/c/1",
                                    "b/5", "a/5/1", "b/2/d/0"}) {
                bool dropped = std::ranges::any_of(
                    all, [&](const Watermark& mark) { return mark.covers(key); });
                CHECK((index.absent(key).code() == Code::Dropped) == dropped);
            }
        }
    }
}

TEST_CASE("rule 9: a watermark removes what lies below it, and covers its tombstones") {
    ObjectIndex index;
    for (int version = 0; version < 50; ++version)
        for (std::string block : {"a", "b"})
            store(index, "T/" + std::to_string(version) + "/" + block);
    store(index, "T/notes");
    store(index, "U/1");
    auto bad = index.find("T/2/a");
    REQUIRE(index.lose(bad));
    REQUIRE(index.learn({Topic::Tombstone, "T/3/gone"}));
    REQUIRE(index.learn({Topic::Tombstone, "T/30/gone"}));
    REQUIRE(index.reserve("T/4/open", 0).ok());
    REQUIRE(index.learn(notice("T/", 20)));
    while (!index.sweep(7)) continue;
    CHECK(index.take_gone().size() == 39);
    CHECK(index.list("T/", "", 1000).size() == 61);
    CHECK(index.find("U/1"));
    CHECK(index.lost_bytes() == 0);
    CHECK(index.notices().count() == 2);  // itself, and the tombstone above it
    CHECK(index.absent("T/3/gone").code() == Code::Dropped);
    CHECK(index.absent("T/2/a").code() == Code::Dropped);
    auto open = std::make_shared<Object>();
    open->key = "T/4/open";
    CHECK(index.publish(open).code() == Code::KeyExists);
    CHECK(index.reserve("T/19", 0).status().code() == Code::KeyExists);
    CHECK(index.reserve("T/20", 0).ok());
    // What says no more than that is not new.
    CHECK_FALSE(index.learn({Topic::Tombstone, "T/3/gone"}));
    CHECK_FALSE(index.learn(notice("T/", 19)));
    CHECK_FALSE(index.learn(notice("T/7/", 100)));
    CHECK(index.learn(notice("T/", 21)));
    CHECK(index.notices().count() == 2);
}

TEST_CASE("rule 9: a watermark gives files and room back, and lets no writer in") {
    StoreDir place;
    std::string bytes = random_bytes(100'000, 1);
    for (int version = 0; version < 5; ++version) {
        REQUIRE(put(*place.store, "T/" + std::to_string(version), bytes).ok());
        REQUIRE(put_as(*place.store,
                       {.key = "T/" + std::to_string(version) + "/d", .tier = Tier::Disk}, bytes)
                    .ok());
    }
    auto writer = place.store->create({.key = "T/1/late", .size = 5});
    REQUIRE(writer.ok());
    CHECK(writer->append("bytes", 5).ok());
    CHECK(place.store->learn({notice("T/", 4)}) == 1);
    Status late = writer->commit(crc32c(0, "bytes", 5)).status();
    CHECK(late.code() == Code::KeyExists);
    CHECK(late.message().find("below 4") != std::string::npos);
    CHECK(eventually([&] { return files_in(place.tier(Tier::Memory)) == 1; }));
    CHECK(eventually([&] { return files_in(place.tier(Tier::Disk)) == 1; }));
    CHECK(place.store->usage(Tier::Memory).objects == 1);
    CHECK(place.store->counters().dropped == 8);
    CHECK(contents(*place.store, "T/4") == bytes);
    CHECK(place.store->learn({notice("T/", 4)}) == 0);
}

TEST_CASE("rule 9: a watermark is in force at once, and what lies below it leaves bit by bit") {
    ObjectIndex index;
    constexpr std::size_t kMany = 20'000;
    for (std::size_t version = 0; version < kMany; ++version)
        store(index, "T/" + std::to_string(version));
    store(index, "T/notes");
    store(index, "carrier");
    index.place(Placement::make(Ring({"a", "b"}, 8), {1, 2}, {}, 1), 1);
    std::vector<std::uint32_t> buckets(Survey::kBuckets);
    std::iota(buckets.begin(), buckets.end(), 0);
    REQUIRE(index.hold_through({.key = "T/7/through", .copies = 2}, "carrier"));
    ObjectPtr old = index.find("T/5");
    REQUIRE(index.lose(index.find("T/6")));
    REQUIRE(index.learn(notice("T/", kMany - 1)));
    CHECK(index.take_gone().empty());
    CHECK(index.sweeping());
    auto in_force = [&] {
        CHECK(!index.find("T/19998"));
        CHECK(!index.raise_copies(old, 3));
        CHECK_FALSE(index.lose(old));
        CHECK_FALSE(index.held("T/19998"));
        CHECK_FALSE(index.held("T/7/through"));
        CHECK_FALSE(index.hold_through({.key = "T/8/through"}, "carrier"));
        CHECK(index.absent("T/19998").code() == Code::Dropped);
        CHECK(index.reserve("T/19998", 0).status().code() == Code::KeyExists);
        CHECK_FALSE(index.move_aside("T/19998", 0, 0, "aside").before);
        CHECK(index.list("T/", "", 5).size() == 2);
        HeldList held(2, buckets);
        for (bool complete = false; !complete;) complete = index.fill(held, 1000);
        CHECK(held.take().size() == 3);
    };
    in_force();
    ObjectIndex::Listing listing{"T/", "", 5};
    CHECK_FALSE(index.list(listing, 1000));  // no more than that is looked at
    CHECK(listing.found.empty());
    std::size_t gone = 0, most = 0;
    bool first_half = true;
    for (bool through = false; !through;) {
        through = index.sweep(256);
        std::size_t now = index.take_gone().size();
        gone += now, most = std::max(most, now);
        if (gone > kMany / 2 && std::exchange(first_half, false)) in_force();
    }
    CHECK(most == 256);
    CHECK(gone == kMany - 2);  // all but the last one and the lost
    CHECK(index.lost_bytes() == 0);
    CHECK_FALSE(index.sweeping());
    CHECK_FALSE(first_half);
    in_force();
    // What is known costs a look-up.
    CHECK_FALSE(index.learn(notice("T/", kMany - 1)));
    CHECK_FALSE(index.sweeping());
    CHECK(index.learn(notice("T/", kMany)));
    while (!index.sweep(1000)) continue;
    CHECK(index.list("T/", "", 5).size() == 1);
}

TEST_CASE("rule 9: whoever brings a watermark does not wait for what it drops, but for its room") {
    StoreDir place;
    constexpr std::uint64_t kMany = 5000;
    std::uint64_t next = 0;
    auto fill = [&] {
        for (std::uint64_t end = next + kMany; next < end; ++next)
            REQUIRE(put(*place.store, "T/" + std::to_string(next), "x").ok());
    };
    bool early = false;
    for (int round = 0; round < 50 && !early; ++round) {
        fill();
        CHECK(place.store->learn({notice("T/", next)}) == 1);
        early = place.store->usage(Tier::Memory).objects > 0;
        CHECK(!place.store->find("T/0"));
        CHECK(place.store->absent("T/7").code() == Code::Dropped);
        CHECK(place.store->list("", "", 5).empty());
        CHECK(eventually([&] { return place.store->usage(Tier::Memory).objects == 0; }));
    }
    CHECK(early);
    CHECK(eventually([&] { return place.store->counters().dropped == next; }));
    fill();
    place.store->learn({notice("T/", next)});
    auto rest = place.store->create({.key = "T/" + std::to_string(next), .size = 64 << 20});
    CHECK(rest.ok());
}

TEST_CASE("rule 9: a store that is closed while it is swept ends that") {
    StoreDir place;
    for (int i = 0; i < 5000; ++i) REQUIRE(put(*place.store, "T/" + std::to_string(i), "x").ok());
    place.store->learn({notice("T/", 5000)});
    place.store.reset();
}

TEST_CASE("rule 9: writers and readers beside sweeps find nothing below a watermark") {
    StoreDir place;
    std::atomic<std::uint64_t> mark{0};
    std::atomic<int> wrong{0}, running{3};
    auto work = [&](std::uint64_t first) {
        for (std::uint64_t version = first; version < 3000; version += 3) {
            for (std::string block : {"/a", "/b"})
                (void)put(*place.store, "T/" + std::to_string(version) + block, "bytes");
            std::uint64_t known = mark;
            for (std::uint64_t old = known > 20 ? known - 20 : 0; old < known; ++old)
                wrong += place.store->find("T/" + std::to_string(old) + "/a") != nullptr;
            for (auto& found : place.store->list("T/", "", 50))
                wrong += Watermark{"T/", known}.covers(found->key);
        }
        --running;
    };
    std::vector<std::thread> threads;
    for (std::uint64_t first : {0, 1, 2}) threads.emplace_back(work, first);
    for (std::uint64_t version = 1; running > 0;
         version = std::min<std::uint64_t>(version + 7, 2990)) {
        place.store->learn({notice("T/", version)});
        mark = version;
    }
    for (auto& thread : threads) thread.join();
    CHECK(wrong == 0);
    place.store->learn({notice("T/", 3000)});
    CHECK(eventually([&] { return place.store->usage(Tier::Memory).objects == 0; }));
    auto usage = place.store->usage(Tier::Memory);
    CHECK(usage.occupied + usage.reserved == 0);
    CHECK(place.store->counters().dropped == place.store->counters().stored);
}

TEST_CASE("rule 9: an agent takes a watermark from clients, and nonsense from nobody") {
    Node node;
    AgentClient remote(kKey);
    for (int version = 0; version < 5; ++version)
        REQUIRE(put(remote, {&node}, "T/" + std::to_string(version), "x").ok());
    CHECK(remote.drop_below(node.tcp, {"T/", 3}, kDeadline).ok());
    CHECK(node.store().list("", "", 10).size() == 2);
    for (std::string prefix : {"", "T/1", "@file/a/"})
        CHECK(remote.drop_below(node.tcp, {prefix, 3}, kDeadline).code() == Code::BadInput);
    Question nonsense{.op = Op::DropBelow, .meta = "x"};
    CHECK(remote.connections().ask(node.tcp, nonsense, kDeadline).status().code() ==
          Code::BadInput);
    CHECK(node.store().notice_digest().first == 1);
}
