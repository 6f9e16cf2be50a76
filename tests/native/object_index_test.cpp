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

// What a notice removes, a few objects at a time.
std::vector<ObjectPtr> swept(ObjectIndex& index, const Notice& notice) {
    index.learn(notice);
    while (!index.sweep(3)) continue;
    return index.take_gone();
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
    CHECK(index.learn({Topic::Tombstone, "key"}));
    CHECK(swept(index, {Topic::Tombstone, "key"}).empty());
    CHECK_FALSE(index.learn({Topic::Tombstone, "key"}));
    CHECK(index.publish(object("key")).code() == Code::KeyExists);
    index.abandon("key");
    CHECK(index.reserve("key", 10).status().code() == Code::KeyExists);
    CHECK(index.absent("key").code() == Code::Dropped);
    ObjectPtr other = store(index, object("other"));
    CHECK(index.learn({Topic::Tombstone, "other"}));
    CHECK(swept(index, {Topic::Tombstone, "other"}) == std::vector{other});
    CHECK(!index.find("other"));
    CHECK(index.notices().count() == 2);
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
        if (key == "dropped") swept(index, {Topic::Tombstone, key});
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

TEST_CASE("rule 8: owners agree if they hold the same header, and on when nodes are too few") {
    auto with = [](std::string header, std::uint16_t copies, std::uint16_t least) {
        auto made = std::make_shared<Object>(*object("key", copies));
        made->header = ObjectHeader::of(std::move(header));
        made->least = least;
        return made;
    };
    auto digest = [&](const ObjectPtr& made) {
        ObjectIndex index;
        place_two(index, 1);
        store(index, made);
        return index.survey().at(2).second;
    };
    CHECK(digest(with("h", 2, 2)) == digest(with("h", 2, 2)));
    CHECK(digest(with("h", 2, 2)) != digest(with("i", 2, 2)));
    CHECK(digest(with("", 2, 2)) != digest(with("h", 2, 2)));
    CHECK(digest(with("h", 2, 2)) != digest(with("h", 2, 1)));
    CHECK(digest(with("h", 2, 2)) != digest(with("h", 3, 2)));
    CHECK(digest(object("file", 2, true)) == digest(object("file", 3, true)));

    ObjectIndex index;
    place_two(index, 1);
    index.place(Placement::make(Ring({"a"}, 8), {1}, {}, 2), 1);
    REQUIRE(index.count(kAll));
    ObjectPtr kept = store(index, with("h", 3, 1));
    CHECK(index.short_of_nodes() == 0);  // one will do
    kept = index.raise_copies(kept, 2, 1);
    CHECK(kept->copies == 3);
    CHECK(index.short_of_nodes() == 0);
    kept = index.raise_copies(kept, 2, 2);  // another writer wanted two
    CHECK(kept->copies == 3);
    CHECK(kept->least == 2);
    CHECK(kept->header.bytes == "h");
    CHECK(index.short_of_nodes() == 1);
    place_two(index, 1);
    CHECK(index.short_of_nodes() == 0);
    CHECK(index.held("key")->least == 2);
    CHECK(index.raise_copies(store(index, object("file", 1, true)), 2, 2)->least <= 1);
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

// ---- held through another object ---------------------------------------------------------------

namespace {

Held held_of(const std::string& key, std::uint16_t copies = 2, std::uint32_t crc = 7) {
    return {.key = key, .size = 10, .crc = crc, .copies = copies, .least = 1};
}

std::vector<std::string> keys_with(const ObjectIndex& index, std::uint64_t peer) {
    std::vector<std::uint32_t> all;
    for (std::uint32_t i = 0; i < Survey::kBuckets; ++i) all.push_back(i);
    HeldList list(peer, all);
    while (!index.fill(list, 3)) continue;
    std::vector<std::string> keys;
    for (auto& held : list.take()) keys.push_back(held.key);
    std::ranges::sort(keys);
    return keys;
}

}  // namespace

TEST_CASE("rule 8: what is held through an object counts as that does, under every placement") {
    ObjectIndex plain, through;
    for (auto* index : {&plain, &through}) place_two(*index, 1);
    store(plain, object("a"));
    store(plain, object("parity", 1));
    store(through, object("parity", 1));
    CHECK(!through.hold_through(held_of("a"), "absent"));
    CHECK(!through.hold_through(held_of("parity"), "parity"));
    REQUIRE(through.hold_through(held_of("a"), "parity"));
    CHECK(through.survey() == plain.survey());
    CHECK(through.buckets_with(2) == plain.buckets_with(2));
    CHECK(through.held("a")->crc == 7);
    CHECK(!through.find("a"));
    CHECK(through.absent("a").code() == Code::NotFound);
    through.missed("a");
    CHECK(through.held("a"));
    // Another placement and back, and one in which the key is not ours.
    for (auto* index : {&plain, &through}) {
        index->place(Placement::make(Ring({"a", "b", "c"}, 8), {1, 2, 3}, {}, 2), 1);
        index->place(Placement::make(Ring({"b", "c"}, 8), {2, 3}, {}, 3), 1);
        while (!index->count(1)) continue;
    }
    REQUIRE(through.strays(kAll, "").size() == 2);
    CHECK(through.strays(kAll, "")[0].key == "a");
    place_two(through, 1);
    place_two(plain, 1);
    CHECK(through.strays(kAll, "").empty());
    CHECK(through.survey() == plain.survey());
    CHECK(keys_with(through, 2) == std::vector<std::string>{"a"});
}

TEST_CASE("rule 8: what is held through an object goes with it, and gives way to the real thing") {
    ObjectIndex index;
    place_two(index, 1);
    ObjectPtr parity = store(index, object("parity", 1));
    auto holds = [&](const std::string& key) {
        return index.hold_through(held_of(key), "parity") && index.held(key);
    };
    REQUIRE(holds("a"));
    SUBCASE("it is read again and found bad") {
        CHECK(index.lose(parity));
    }
    SUBCASE("it is evicted") {
        CHECK(index.evict(parity));
    }
    SUBCASE("it is dropped") {
        swept(index, {Topic::Tombstone, "parity"});
    }
    SUBCASE("it loses its key") {
        CHECK(index.move_aside("parity", 10, 7, "aside").before);
    }
    SUBCASE("the key is dropped") {
        swept(index, {Topic::Tombstone, "a"});
        CHECK(!index.hold_through(held_of("a"), "parity"));
    }
    SUBCASE("another version wins the key") {
        index.move_aside("a", 10, 7, "aside");
    }
    CHECK(!index.held("a"));
    CHECK(index.survey().empty());
}

TEST_CASE("rule 8: a key that is stored for real is held through nothing any more") {
    ObjectIndex index;
    place_two(index, 1);
    ObjectPtr parity = store(index, object("parity", 1));
    REQUIRE(index.hold_through(held_of("a"), "parity"));
    auto before = index.survey();
    REQUIRE(!*index.reserve("a", 10));
    CHECK(index.held("a"));  // until it is there
    CHECK(!index.hold_through(held_of("a"), "parity"));
    REQUIRE(index.publish(object("a")).ok());
    CHECK(index.survey() == before);
    CHECK(index.raise_copies(parity, 3));
    CHECK(index.lose(index.find("parity")));
    CHECK(index.survey() == before);
    // More copies are wanted of what is held through another as of anything else.
    store(index, object("parity2", 1));
    REQUIRE(index.hold_through(held_of("b"), "parity2"));
    CHECK(index.raise_copies(index.find("parity2"), 2));
    index.raise_through(held_of("b", 2, 8), 9, 0);
    CHECK(index.held("b")->copies == 2);
    index.raise_through(held_of("b"), 9, 0);
    CHECK(index.held("b")->copies == 9);
}

TEST_CASE("rule 1: what is held through an object is not written over by other bytes") {
    ObjectIndex index;
    place_two(index, 1);
    store(index, object("parity", 1));
    REQUIRE(index.hold_through(held_of("a", 2, 8), "parity"));
    CHECK(index.reserve("a", 11).status().code() == Code::KeyExists);
    auto before = index.survey();
    REQUIRE(!*index.reserve("a", 10));
    CHECK(index.publish(object("a")).code() == Code::KeyExists);  // its digest is 7
    CHECK(index.is_being_written("a"));
    index.abandon("a");
    CHECK(index.held("a")->crc == 8);
    CHECK(index.survey() == before);
    // The same bytes may come. Once it is not held any more, any may.
    REQUIRE(index.hold_through(held_of("b"), "parity"));
    store(index, object("b"));
    CHECK(index.lose(index.find("parity")));
    store(index, object("a"));
    CHECK(index.held("a")->crc == 7);
}

TEST_CASE("rule 9: a watermark covers what is held through an object") {
    ObjectIndex index;
    place_two(index, 1);
    store(index, object("parity", 1));
    for (int version = 0; version < 20; ++version) {
        std::string key = "v/" + std::to_string(version);
        if (version % 3 == 0)
            store(index, object(key));
        else
            REQUIRE(index.hold_through(held_of(key), "parity"));
    }
    auto gone = swept(index, {Topic::Watermark, Watermark{"v/", 10}.encode()});
    CHECK(gone.size() == 4);
    CHECK(keys_with(index, 2) == std::vector<std::string>{"v/10", "v/11", "v/12", "v/13", "v/14",
                                                          "v/15", "v/16", "v/17", "v/18", "v/19"});
    CHECK(index.survey()[2].first == 10);
}

TEST_CASE("rule 8: what is held through objects follows a plain model, whatever happens") {
    for (std::uint64_t seed = 1; seed <= 60; ++seed) {
        CAPTURE(seed);
        std::mt19937_64 random(seed);
        ObjectIndex index;
        std::map<std::string, Held> stored;
        std::map<std::string, std::pair<Held, std::string>> through;
        std::set<std::string> dropped;
        PlacementPtr placement;
        auto owned = [&](const Held& held) {
            return placement && placement->owners(held.key, held.copies).contains(1);
        };
        auto place = [&] {
            std::vector<std::string> names;
            std::vector<std::uint64_t> numbers;
            for (std::uint64_t i = 1; i <= 5; ++i)
                if (random() % 3) names.push_back("n" + std::to_string(i)), numbers.push_back(i);
            std::vector<std::vector<std::uint64_t>> slots{{5, 1, 2}, {3, 4}, {1, 3, 4}};
            placement = Placement::make(Ring(names, 8), numbers, {}, random(), {}, std::nullopt,
                                        {{"k1", slots, 0}});
            index.place(placement, 1);
        };
        auto leaves = [&](const std::string& key) {
            stored.erase(key);
            std::erase_if(through, [&](auto& one) { return one.second.second == key; });
        };
        place();
        for (int step = 0; step < 400; ++step) {
            std::string key = "k" + std::to_string(random() % 24);
            std::string other = "k" + std::to_string(random() % 24);
            auto copies = static_cast<std::uint16_t>(1 + random() % 3);
            switch (random() % 9) {
                case 0:
                case 1:
                    if (stored.contains(key) || dropped.contains(key)) break;
                    store(index, object(key, copies));
                    stored[key] = held_of(key, copies);
                    through.erase(key);
                    break;
                case 2:
                case 3: {
                    bool may =
                        stored.contains(other) && !stored.contains(key) && !dropped.contains(key);
                    REQUIRE(index.hold_through(held_of(key, copies), other) == may);
                    if (may) through[key] = {held_of(key, copies), other};
                    break;
                }
                case 4:
                    if (ObjectPtr here = index.find(key)) {
                        REQUIRE(index.lose(here));
                        leaves(key);
                    }
                    break;
                case 5:
                    if (random() % 4) break;
                    swept(index, {Topic::Tombstone, key});
                    dropped.insert(key);
                    through.erase(key);
                    leaves(key);
                    break;
                case 6: {
                    auto held = index.held(key);
                    if (!held) break;
                    auto trimmed = index.trim(key, held->size, held->crc);
                    REQUIRE(trimmed.done == !owned(*held));
                    if (!trimmed.done) break;
                    through.erase(key);
                    leaves(key);
                    break;
                }
                case 7:
                    if (random() % 8 == 0) place();
                    break;
                case 8:
                    index.count(random() % 5);
                    break;
            }
            if (step % 7) continue;
            while (!index.count(1 + random() % 9)) continue;
            std::map<std::uint64_t, std::pair<std::uint64_t, std::uint64_t>> expected;
            std::map<std::uint64_t, std::vector<std::string>> keys;
            std::vector<std::string> strays;
            auto look = [&](const Held& held) {
                if (!owned(held)) {
                    strays.push_back(held.key);
                    return;
                }
                for (auto peer : placement->owners(held.key, held.copies)) {
                    if (peer == 1) continue;
                    ++expected[peer].first;
                    expected[peer].second ^= Survey::digest_of(held);
                    keys[peer].push_back(held.key);
                }
            };
            for (auto& [name, held] : stored) look(held);
            for (auto& [name, one] : through) look(one.first);
            REQUIRE(index.survey() == expected);
            std::vector<std::string> offered;
            for (auto& held : index.strays(kAll, "")) offered.push_back(held.key);
            std::ranges::sort(strays);
            REQUIRE(offered == strays);
            for (auto& [peer, wanted] : keys) {
                std::ranges::sort(wanted);
                REQUIRE(keys_with(index, peer) == wanted);
            }
        }
    }
}
