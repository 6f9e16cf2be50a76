// The index by itself: what it decides without files, threads or a clock.
#include "store/object_index.hpp"

#include <random>
#include <set>

#include "support.hpp"

using namespace holdfast;
using namespace holdfast::test;

namespace {

ObjectPtr object(const std::string& key, std::uint16_t copies = 2, bool has_source = false,
                 std::uint32_t crc = 7) {
    auto made = std::make_shared<Object>();
    made->key = key;
    made->size = 10;
    made->crc = crc;
    made->copies = copies;
    made->has_source = has_source;
    return made;
}

ObjectPtr store(ObjectIndex& index, ObjectPtr made) {
    auto reserved = index.reserve(made->key, made->size);
    REQUIRE(reserved.ok());
    REQUIRE(!*reserved);
    REQUIRE(index.publish(made).ok());
    return made;
}

constexpr std::size_t kAll = 1'000'000;

// Members 1 and 2 own everything that wants two copies.
void place_two(ObjectIndex& index, std::uint64_t self) {
    index.place(Placement::make(Ring({"a", "b"}, 8), {1, 2}, {}, 1), self);
    REQUIRE(index.count(kAll));
}

}  // namespace

TEST_CASE("rule 1: a key is reserved by one, published once, and free again when abandoned") {
    ObjectIndex index;
    REQUIRE(index.reserve("key", 10).ok());
    CHECK(index.reserve("key", 10).status().code() == Code::Busy);
    CHECK(!index.find("key"));
    CHECK(index.list("", "", kAll).empty());
    index.abandon("key");
    ObjectPtr stored = store(index, object("key"));
    CHECK(*index.reserve("key", 10) == stored);
    CHECK(index.reserve("key", 11).status().code() == Code::KeyExists);
    CHECK(index.list("k", "", kAll) == std::vector{stored});
    CHECK(index.list("k", "key", kAll).empty());
}

TEST_CASE("rule 9: a key that is dropped while it is written is never published") {
    ObjectIndex index;
    REQUIRE(index.reserve("key", 10).ok());
    auto burial = index.bury("key");
    CHECK(burial.is_new);
    CHECK(!burial.gone);
    CHECK_FALSE(index.bury("key").is_new);
    CHECK(index.publish(object("key")).code() == Code::KeyExists);
    index.abandon("key");
    CHECK(index.reserve("key", 10).status().code() == Code::KeyExists);
    CHECK(index.absent("key").code() == Code::Dropped);
    ObjectPtr other = store(index, object("other"));
    CHECK(index.bury("other").gone == other);
    CHECK(!index.find("other"));
    CHECK(index.dropped().count() == 2);
}

TEST_CASE("rule 7: a lost copy is remembered until it is stored again or dropped") {
    ObjectIndex index;
    for (std::string key : {"again", "dropped", "moved"}) {
        ObjectPtr bad = store(index, object(key));
        CHECK(index.lose(bad));
        CHECK_FALSE(index.lose(bad));
        CHECK(index.absent(key).code() == Code::Damaged);
        CHECK(index.lost_bytes() == key.size() + kEntryBytes);
        if (key == "again") store(index, object(key));
        if (key == "dropped") index.bury(key);
        if (key == "moved") {
            store(index, object("loser"));
            CHECK(index.move_aside("loser", 10, 7, key).after);
        }
        CHECK(index.lost_bytes() == 0);
    }
    CHECK(index.lose(store(index, object("file", 1, true))));
    CHECK(index.absent("file").code() == Code::NotFound);
}

TEST_CASE("rule 8: a version that meets itself under its other key keeps the more copies of both") {
    ObjectIndex index;
    place_two(index, 1);
    store(index, object("aside", 1));
    store(index, object("key", 3));
    auto moved = index.move_aside("key", 10, 7, "aside");
    CHECK(moved.before);
    CHECK(!moved.after);
    CHECK(index.find("aside")->copies == 3);
    REQUIRE(index.reserve("busy", 10).ok());
    store(index, object("key", 3));
    CHECK(!index.move_aside("key", 10, 7, "busy").before);
    CHECK(index.find("key"));
}

TEST_CASE("rule 8: only what we own counts when it is evicted, and until it is missed") {
    ObjectIndex index;
    place_two(index, 1);
    auto file = store(index, object("file", 2, true));
    auto before = index.survey();
    CHECK(index.evict(file));
    CHECK_FALSE(index.evict(file));
    CHECK(index.survey() == before);
    CHECK(index.held("file"));
    CHECK(!index.find("file"));
    index.missed("file");
    CHECK(index.survey().empty());
    CHECK_FALSE(index.held("file"));
    index.place(Placement::make(Ring({"b", "c"}, 8), {2, 3}, {}, 2), 1);
    REQUIRE(index.count(kAll));
    CHECK(index.evict(store(index, object("file", 2, true))));
    CHECK_FALSE(index.held("file"));
}

TEST_CASE("rule 8: pages of any size give the same as the whole") {
    std::mt19937_64 random(1);
    ObjectIndex whole, paged;
    for (int i = 0; i < 300; ++i) {
        std::string key = "key" + std::to_string(i);
        std::uint16_t copies = static_cast<std::uint16_t>(1 + random() % 3);
        for (ObjectIndex* index : {&whole, &paged}) {
            store(*index, object(key, copies, i % 3 == 0));
            if (i % 7 == 0) REQUIRE(index->reserve(key + "/being written", 1).ok());
        }
    }
    place_two(whole, 1);
    paged.place(Placement::make(Ring({"a", "b"}, 8), {1, 2}, {}, 1), 1);
    for (std::size_t page = 1; !paged.count(page); ++page) {
    }
    for (int i = 0; i < 300; i += 6)
        for (ObjectIndex* index : {&whole, &paged})
            REQUIRE(index->evict(index->find("key" + std::to_string(i))));
    CHECK(paged.survey() == whole.survey());
    CHECK(paged.buckets_with(2) == whole.buckets_with(2));
    std::vector<std::uint32_t> some;
    for (std::uint32_t i = 0; i < Survey::kBuckets; i += 2) some.push_back(i);
    auto names = [&](const ObjectIndex& index, std::size_t page) {
        HeldList list(2, some);
        while (!index.fill(list, page)) {
        }
        std::vector<std::string> found;
        for (auto& held : list.take()) found.push_back(held.key);
        return found;
    };
    auto all = names(whole, kAll);
    CHECK(all.size() > 50);
    CHECK(names(paged, 1) == all);
    CHECK(names(paged, 7) == all);
}
