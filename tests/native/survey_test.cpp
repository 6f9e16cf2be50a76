// Rule 8, comparing: what a node says that it shares is what it holds, whatever came and went.
#include "store/survey.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <atomic>
#include <random>
#include <set>
#include <thread>

#include "base/hash.hpp"
#include "support.hpp"

using namespace holdfast;
using namespace holdfast::test;

namespace {

using Survey64 = std::map<std::uint64_t, std::pair<std::uint64_t, std::uint64_t>>;

struct Seen {
    PlacementPtr placement;
    std::uint64_t self;
};

// Some members of a random cluster; `self` is among them or, as a spare, is not.
Seen random_seen(std::mt19937_64& random, std::uint64_t self) {
    std::vector<std::string> names;
    std::vector<std::uint64_t> numbers;
    for (std::uint64_t i = 1; i <= 9; ++i) {
        if (random() % 3 == 0) continue;
        names.push_back("node" + std::to_string(i));
        numbers.push_back(i);
    }
    Ring ring(names, static_cast<std::uint32_t>(1 + random() % 20));
    return {Placement::make(std::move(ring), numbers, {}, random()), self};
}

// The same by looking at every object, without anything that was kept.
struct BruteForce {
    BruteForce(Store& store, const Seen& place) {
        const Placement& placement = *place.placement;
        for (auto& object : store.list("", "", 100'000)) {
            std::set<std::uint64_t> owners;
            for (auto node : placement.ring.owners(object->key, object->copies))
                owners.insert(placement.numbers[node]);
            if (!owners.contains(place.self)) {
                strays.push_back(object->key);
                continue;
            }
            owners.erase(place.self);
            for (auto other : owners) {
                auto& [count, digest] = shared[other];
                ++count;
                digest ^= Survey::digest_of(Held::of(*object));
                keys[other].insert(object->key);
            }
        }
    }
    Survey64 shared;
    std::map<std::uint64_t, std::set<std::string>> keys;
    std::vector<std::string> strays;
};

std::vector<std::string> names_of(const std::vector<Held>& held) {
    std::vector<std::string> names;
    for (auto& one : held) names.push_back(one.key);
    return names;
}

void check_equal(Store& store, const Seen& place) {
    BruteForce expected(store, place);
    REQUIRE(store.survey() == expected.shared);
    REQUIRE(names_of(store.strays(100'000, "")) == expected.strays);
    std::vector<std::uint32_t> all;
    for (std::uint32_t i = 0; i < Survey::kBuckets; ++i) all.push_back(i);
    for (auto& [other, keys] : expected.keys) {
        auto names = names_of(store.held_with(other, all));
        REQUIRE(std::set<std::string>(names.begin(), names.end()) == keys);
        std::uint64_t together = 0;
        for (std::uint64_t bucket : store.buckets_with(other)) together ^= bucket;
        REQUIRE(together == expected.shared[other].second);
    }
}

Result<ObjectPtr> put_random(Store& store, std::mt19937_64& random, int keys) {
    Store::NewObject wanted{.key = "key" + std::to_string(random() % keys)};
    wanted.copies = static_cast<std::uint16_t>(1 + random() % 4);
    wanted.has_source = random() % 5 == 0;
    wanted.tier = random() % 4 == 0 ? Tier::Disk : Tier::Memory;
    return put_as(store, wanted, wanted.key);
}

}  // namespace

TEST_CASE("rule 8: a survey equals a count of everything, on random rings") {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        CAPTURE(seed);
        std::mt19937_64 random(seed);
        StoreDir place;
        Store& store = *place.store;
        CHECK(store.survey().empty());
        auto seen = random_seen(random, 1 + random() % 9);
        store.place(seen.placement, seen.self);
        for (int round = 0; round < 6; ++round) {
            for (int i = 0; i < 100; ++i) {
                (void)put_random(store, random, 400);
                if (random() % 4 == 0) store.drop("key" + std::to_string(random() % 400));
                auto held = store.held("key" + std::to_string(random() % 400));
                if (held && random() % 2) store.trim(held->key, held->size, held->crc);
            }
            check_equal(store, seen);
            if (random() % 2 == 0) continue;
            seen = random_seen(random, 1 + random() % 9);
            store.place(seen.placement, seen.self);
            check_equal(store, seen);
        }
    }
}

TEST_CASE("rule 8: what comes and goes during a count is counted once") {
    std::mt19937_64 random(1);
    auto [placement, self] = random_seen(random, 2);
    std::map<std::string, ObjectPtr> objects;
    auto add = [&](const std::string& key) {
        auto object = std::make_shared<Object>();
        object->key = key;
        object->copies = 3;
        objects[key] = object;
        return objects[key];
    };
    for (int i = 0; i < 300; ++i) add(std::to_string(1000 + i * 2));
    Survey survey, fresh;
    survey.restart(placement, self);
    auto at = objects.begin();
    for (int page = 0; page < 3; ++page) {
        for (int i = 0; i < 100; ++i, ++at) survey.count(at->first, at->second);
        for (int i = 0; i < 200; ++i) {
            std::string key = std::to_string(1000 + random() % 600);
            if (at != objects.end() && key == at->first) continue;
            if (auto found = objects.find(key); found != objects.end()) {
                survey.removed(found->second);
                objects.erase(found);
            } else {
                survey.added(add(key));
            }
        }
        at = objects.upper_bound(survey.reached());
    }
    for (; at != objects.end(); ++at) survey.count(at->first, at->second);
    survey.finish();
    fresh.restart(placement, self);
    for (auto& [key, object] : objects) fresh.count(key, object);
    fresh.finish();
    CHECK(survey.strays() == fresh.strays());
    REQUIRE(survey.shared().size() == fresh.shared().size());
    for (auto& [other, shared] : fresh.shared()) {
        CHECK(survey.shared().at(other).count == shared.count);
        CHECK(survey.shared().at(other).digest == shared.digest);
        CHECK(survey.shared().at(other).buckets == shared.buckets);
    }
}

TEST_CASE("rule 8: two owners agree if and only if they hold the same objects") {
    Node a, b;
    agree({&a, &b});
    for (int i = 0; i < 500; ++i) {
        std::string key = "key" + std::to_string(i);
        REQUIRE(put_as(a.store(), {.key = key, .copies = 2}, "bytes").ok());
        REQUIRE(put_as(b.store(), {.key = key, .tier = Tier::Disk, .copies = 2}, "bytes").ok());
    }
    auto with_b = [&] { return a.store().survey()[b.number]; };
    auto with_a = [&] { return b.store().survey()[a.number]; };
    CHECK(with_b() == with_a());
    CHECK(with_b().first == 500);

    // A copy that went bad is missing from the digest, in its bucket only.
    std::string path = b.tier(Tier::Disk) + "/" + b.store().find("key7")->name;
    REQUIRE(::chmod(path.c_str(), 0600) == 0);
    REQUIRE(::truncate(path.c_str(), 1) == 0);
    CHECK_FALSE(b.store().verify(b.store().find("key7")).ok());
    CHECK(with_b() != with_a());
    auto ours = a.store().buckets_with(b.number), theirs = b.store().buckets_with(a.number);
    std::vector<std::uint32_t> different;
    for (std::uint32_t i = 0; i < Survey::kBuckets; ++i)
        if (ours[i] != theirs[i]) different.push_back(i);
    CHECK(different ==
          std::vector<std::uint32_t>{static_cast<std::uint32_t>(xxh3_64("key7") >> 58)});
    auto here = names_of(a.store().held_with(b.number, different));
    auto there = names_of(b.store().held_with(a.number, different));
    CHECK(here.size() == there.size() + 1);
    CHECK(here.size() < 50);

    CHECK(b.pull({"key7", a.tcp, Tier::Disk}).ok());
    CHECK(with_b() == with_a());
    REQUIRE(put_as(b.store(), {.key = "cached", .has_source = true, .copies = 2}, "x").ok());
    CHECK(with_b() != with_a());
    CHECK(a.pull({"cached", b.tcp}).ok());
    CHECK(with_b() == with_a());
    REQUIRE(put_as(a.store(), {.key = "differs", .copies = 2}, "one").ok());
    REQUIRE(put_as(b.store(), {.key = "differs", .copies = 2}, "two").ok());
    CHECK(with_b() != with_a());
    CHECK(b.pull({"differs", a.tcp}).status().code() == Code::KeyExists);
}

TEST_CASE("rule 8: the greater number of copies wins wherever two meet") {
    Node a, b, c;
    agree({&a, &b, &c});
    AgentClient remote(kKey);
    std::string key = key_of({&a, &b, &c}), bytes = random_bytes(100'000, 1);
    REQUIRE(put(remote, {&a, &b}, key, bytes).ok());
    CHECK(a.store().survey()[c.number].first == 0);
    REQUIRE(put(remote, {&a, &b, &c}, key, bytes).ok());
    for (Node* node : {&a, &b, &c}) CHECK(node->store().find(key)->copies == 3);
    CHECK(a.store().survey()[c.number] == c.store().survey()[a.number]);
    CHECK(a.store().survey()[c.number].first == 1);
    REQUIRE(put(remote, {&a}, key, bytes).ok());  // fewer changes nothing
    CHECK(a.store().find(key)->copies == 3);

    std::string other = key_of({&a, &b, &c}, "other");
    REQUIRE(put_as(a.store(), {.key = other, .copies = 2}, bytes).ok());
    REQUIRE(put_as(c.store(), {.key = other, .copies = 3}, bytes).ok());
    CHECK((*a.pull({other, c.tcp}))->copies == 3);
    CHECK(a.store().survey()[c.number] == c.store().survey()[a.number]);
    CHECK(contents(a.store(), other) == bytes);
}

TEST_CASE("rule 8: a list of what is held has whole buckets, and one at least") {
    StoreDir place(256 << 20);
    place.store->place(Placement::make(Ring({"a", "b"}, 10), {1, 2}, {}, 1), 1);
    for (int i = 0; i < 17'000; ++i)
        REQUIRE(put_as(*place.store, {.key = std::to_string(i), .copies = 2}, "").ok());
    std::vector<std::uint32_t> all;
    for (std::uint32_t i = 0; i < Survey::kBuckets; ++i) all.push_back(i);
    auto most = place.store->held_with(2, all);
    CHECK(most.size() <= 16'384);
    std::map<std::size_t, std::size_t> by_bucket;
    for (auto& one : most) ++by_bucket[Survey::bucket_of(one.key)];
    for (auto& [bucket, count] : by_bucket)
        CHECK(place.store->held_with(2, {static_cast<std::uint32_t>(bucket)}).size() == count);
    CHECK(by_bucket.size() > 55);
    CHECK(by_bucket.size() < 64);
    CHECK(place.store->held_with(2, {5, 5, 1000}).size() == by_bucket[5]);
    CHECK(place.store->held_with(3, all).empty());
    CHECK(place.store->survey()[2].first == 17'000);
}

TEST_CASE("rule 8: strays come in order and in pages, and go when they are owned again") {
    Node a, b;
    std::vector<std::string> keys;
    for (int i = 0; i < 100; ++i) {
        keys.push_back("key" + std::to_string(100 + i));
        REQUIRE(put(a.store(), keys.back(), "bytes").ok());
    }
    CHECK(a.store().strays(10, "").empty());
    agree({&a, &b});
    auto strays = a.store().strays(1000, "");
    CHECK(strays.size() > 10);
    CHECK(strays.size() < 90);
    std::vector<std::string> paged;
    for (std::string after;;) {
        auto page = names_of(a.store().strays(7, after));
        if (page.empty()) break;
        CHECK(page.size() <= 7);
        paged.insert(paged.end(), page.begin(), page.end());
        after = page.back();
    }
    CHECK(paged == names_of(strays));
    a.agent().set_placement(
        Placement::make(Ring({b.name()}, 5), {b.number}, {b.tcp}, 3));  // a spare owns nothing
    CHECK(a.store().strays(1000, "").size() == 100);
    agree({&a});
    CHECK(a.store().strays(1000, "").empty());
}

TEST_CASE("rule 8: a trim takes only what is still a stray, and the object that is meant") {
    Node a, b;
    agree({&a, &b});
    std::string mine = key_of({&a}), theirs = key_of({&b}), bytes = random_bytes(100'000, 1);
    std::uint32_t crc = crc32c(0, bytes.data(), bytes.size());
    for (auto& key : {mine, theirs}) REQUIRE(put(a.store(), key, bytes).ok());
    CHECK_FALSE(a.store().trim(mine, bytes.size(), crc));
    CHECK_FALSE(a.store().trim(theirs, bytes.size() + 1, crc));
    CHECK_FALSE(a.store().trim(theirs, bytes.size(), crc + 1));
    CHECK_FALSE(a.store().trim("absent", bytes.size(), crc));
    agree({&a}, 2);  // alone it owns everything
    CHECK_FALSE(a.store().trim(theirs, bytes.size(), crc));
    agree({&a, &b}, 3);
    CHECK(a.store().trim(theirs, bytes.size(), crc));
    CHECK_FALSE(a.store().trim(theirs, bytes.size(), crc));
    CHECK(a.store().counters().trimmed == 1);
    CHECK(a.store().absent(theirs).code() == Code::NotFound);
    CHECK(put(a.store(), theirs, bytes).ok());  // no tombstone: it may come back
    CHECK(contents(a.store(), theirs) == bytes);
    REQUIRE(put_as(a.store(), {.key = key_of({&b}, "file"), .has_source = true}, bytes).ok());
    CHECK(a.store().trim(key_of({&b}, "file"), bytes.size(), crc));

    StoreDir fresh;  // who knows no view keeps everything
    REQUIRE(put(*fresh.store, "key", bytes).ok());
    CHECK_FALSE(fresh.store->trim("key", bytes.size(), crc));
}

TEST_CASE("a version that lost its key is kept under another, and readers notice nothing") {
    for (std::size_t size : {100UL, 100'000UL}) {
        Node a, b;
        agree({&a, &b});
        Store& store = a.store();
        std::string bytes = random_bytes(size, 1);
        std::uint32_t crc = crc32c(0, bytes.data(), bytes.size());
        REQUIRE(put_as(store, {.key = "key", .copies = 2}, bytes).ok());
        REQUIRE(put_as(b.store(), {.key = "aside", .copies = 2}, bytes).ok());
        ObjectPtr found = store.find("key");
        CHECK_FALSE(store.move_aside("key", size, crc + 1, "aside"));
        CHECK_FALSE(store.move_aside("absent", size, crc, "aside"));
        auto occupied = [&] { return store.usage(Tier::Memory).occupied; };
        auto before = occupied();
        CHECK(store.move_aside("key", size, crc, "aside"));
        CHECK(store.absent("key").code() == Code::NotFound);
        CHECK(contents(store, "aside") == bytes);
        CHECK(store.find("aside")->copies == 2);
        if (!found->in_heap) CHECK(all_of(*store.open_file(found)) == bytes);
        CHECK(occupied() == before + (found->in_heap ? 2 : 0));  // a longer key
        CHECK(store.survey() == decltype(store.survey()){{b.number, b.store().survey()[a.number]}});
        // The winner comes, and what is put there again meets its own copy.
        REQUIRE(put_as(store, {.key = "key", .copies = 1}, bytes).ok());
        CHECK(store.move_aside("key", size, crc, "aside"));
        CHECK(store.usage(Tier::Memory).objects == 1);
        CHECK(occupied() == before + (found->in_heap ? 2 : 0));
        CHECK(contents(store, "aside") == bytes);
        // Who dropped what was set aside wants it no more.
        store.drop("aside");
        REQUIRE(put(store, "key", bytes).ok());
        CHECK(store.move_aside("key", size, crc, "aside"));
        CHECK(store.usage(Tier::Memory).objects == 0);
        // A file can be read again.
        REQUIRE(put_as(store, {.key = "file", .has_source = true}, bytes).ok());
        CHECK(store.move_aside("file", size, crc, "other"));
        CHECK(store.usage(Tier::Memory).objects == 0);
        CHECK(store.usage(Tier::Memory).reserved == 0);
    }
}

TEST_CASE("a trim that races with a put of the same key never takes the new file") {
    Node a, b;
    agree({&a, &b});
    std::string key = key_of({&b}), bytes = random_bytes(70'000, 1);
    std::uint32_t crc = crc32c(0, bytes.data(), bytes.size());
    std::atomic<bool> done{false};
    std::thread trimmer([&] {
        while (!done) {
            a.store().trim(key, bytes.size(), crc);
            std::this_thread::sleep_for(20us);
        }
    });
    for (int i = 0; i < 100; ++i) {
        auto object = put(a.store(), key, bytes);
        if (!object.ok()) continue;
        std::string found = contents(a.store(), key);
        CHECK((found == bytes || found.front() == '<'));
    }
    done = true;
    trimmer.join();
    CHECK(a.store().counters().damaged == 0);
    a.store().trim(key, bytes.size(), crc);
    CHECK(put(a.store(), key, bytes).ok());
    CHECK(contents(a.store(), key) == bytes);
    CHECK(files_in(a.tier(Tier::Memory)) == 1);
}

TEST_CASE("rules 8 and 9: puts, drops, trims, surveys and new views at once") {
    StoreDir place;
    Store& store = *place.store;
    std::mt19937_64 views(7);
    std::vector<Seen> places;
    for (int i = 0; i < 4; ++i) places.push_back(random_seen(views, 1 + views() % 9));
    std::atomic<bool> done{false};
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < 3; ++t) {
        threads.emplace_back([&, t] {
            std::mt19937_64 random(t);
            for (int i = 0; i < 600; ++i) {
                (void)put_random(store, random, 2000);
                if (random() % 8 == 0) store.drop("key" + std::to_string(random() % 2000));
                if (random() % 8 == 0)
                    store.learn(tombstones({"key" + std::to_string(random() % 2000)}));
                auto held = store.held("key" + std::to_string(random() % 2000));
                if (held) store.trim(held->key, held->size, held->crc);
            }
        });
    }
    std::thread viewer([&] {
        for (std::size_t i = 0; !done; ++i) {
            auto& [placement, self] = places[i % places.size()];
            store.place(placement, self);
            for (auto& [other, shared] : store.survey()) {
                (void)store.buckets_with(other);
                (void)store.held_with(other, {0, 1, 2});
            }
            for (auto& stray : store.strays(10, "")) store.trim(stray.key, stray.size, stray.crc);
            (void)store.notice_digest();
            (void)store.notices_in({1, 2, 3});
        }
    });
    for (auto& thread : threads) thread.join();
    done = true;
    viewer.join();
    store.place(places[1].placement, places[1].self);
    check_equal(store, places[1]);
    for (auto& encoded : all_notices(store)) CHECK(store.find(encoded.substr(1)) == nullptr);
}
