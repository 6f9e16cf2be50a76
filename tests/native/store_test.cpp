// The store: written once, never beyond its capacity, evicting only what can be had again.
#include "store/store.hpp"

#include <atomic>
#include <latch>
#include <random>
#include <thread>

#include "support.hpp"

using namespace holdfast;
using namespace holdfast::test;

namespace {

// Other bytes of the same size and the same CRC-32C: the generator polynomial, added anywhere.
std::string same_checksum(std::string bytes) {
    std::uint64_t generator = std::uint64_t{0x82f63b78} << 1 | 1;
    for (std::size_t i = 0; i < 5; ++i)
        bytes[10 + i] = static_cast<char>(bytes[10 + i] ^ static_cast<char>(generator >> (8 * i)));
    return bytes;
}

}  // namespace

TEST_CASE("a key is written once: the same bytes are fine, others are not") {
    StoreDir place;
    for (std::size_t size : {std::size_t{1000}, std::size_t{200'000}}) {
        std::string key = "key" + std::to_string(size), bytes = random_bytes(size, size);
        REQUIRE(put(*place.store, key, bytes).ok());
        CHECK(put(*place.store, key, bytes).ok());
        CHECK(put(*place.store, key, bytes + "x").status().code() == Code::KeyExists);
        CHECK(put(*place.store, key, bytes.substr(0, 900)).status().code() == Code::KeyExists);
        std::string other = bytes;
        other.back() ^= 1;
        CHECK(put(*place.store, key, other).status().code() == Code::KeyExists);
        std::string collision = same_checksum(bytes);
        REQUIRE(crc32c(0, collision.data(), size) == crc32c(0, bytes.data(), size));
        REQUIRE(collision != bytes);
        CHECK(put(*place.store, key, collision).status().code() == Code::KeyExists);
        CHECK(contents(*place.store, key) == bytes);
    }
    CHECK(place.store->counters().stored == 2);
    CHECK(place.store->usage(Tier::Memory).objects == 2);
}

TEST_CASE("a header is written once with its bytes, and tells versions apart") {
    StoreDir place;
    for (Tier tier : {Tier::Memory, Tier::Disk})
        for (std::size_t size : {std::size_t{0}, std::size_t{1000}, std::size_t{200'000}}) {
            std::string key = std::to_string(size) + (tier == Tier::Disk ? "d" : "m");
            std::string bytes = random_bytes(size, size), header(kMaxHeader, 'h');
            Store::NewObject wanted{.key = key, .tier = tier};
            auto plain = put_as(*place.store, {.key = key + "plain", .tier = tier}, bytes);
            wanted.header = ObjectHeader::of(header);
            auto object = put_as(*place.store, wanted, bytes);
            REQUIRE(object.ok());
            CHECK((*object)->header.bytes == header);
            CHECK((*object)->crc == (*plain)->crc);
            std::string both = bytes + header;
            CHECK((*object)->full_crc() == crc32c(0, both.data(), both.size()));
            CHECK((*plain)->full_crc() == (*plain)->crc);
            bool in_heap = (*object)->in_heap;
            CHECK((*object)->footprint() == (*plain)->footprint() + kMaxHeader - (in_heap ? 5 : 0));
            CHECK(put_as(*place.store, wanted, bytes).ok());
            for (const std::string& other : {std::string(), header.substr(1), header + "x"}) {
                wanted.header = ObjectHeader::of(other);
                CHECK(put_as(*place.store, wanted, bytes).status().code() == Code::KeyExists);
            }
            std::uint32_t crc = (*object)->full_crc();
            CHECK_FALSE(place.store->move_aside(key, size, (*object)->crc, "aside"));
            CHECK(place.store->move_aside(key, size, crc, key + "aside"));
            CHECK(place.store->find(key + "aside")->header.bytes == header);
            CHECK(contents(*place.store, key + "aside") == bytes);
        }
}

TEST_CASE("a key that is being written is busy, and invisible") {
    StoreDir place;
    auto writer = place.store->create({.key = "key", .size = 10});
    REQUIRE(writer.ok());
    CHECK(place.store->create({.key = "key", .size = 10}).status().code() == Code::Busy);
    CHECK(place.store->find("key") == nullptr);
    CHECK(place.store->list("", "", 10).empty());
}

TEST_CASE("an object dropped while it is compared is not acknowledged") {
    StoreDir place;
    std::string bytes = random_bytes(100'000, 1);
    REQUIRE(put(*place.store, "key", bytes).ok());
    auto writer = place.store->create({.key = "key", .size = bytes.size()});
    REQUIRE(writer.ok());
    CHECK(writer->compares());
    CHECK(writer->append(bytes.data(), bytes.size()).ok());
    place.store->drop("key");
    CHECK(writer->commit(crc32c(0, bytes.data(), bytes.size())).status().code() == Code::KeyExists);
}

TEST_CASE("a full tier refuses clearly, and evicts nothing in vain") {
    StoreDir place(1 << 20);
    std::string half = random_bytes(512 << 10, 1), much = random_bytes(768 << 10, 2);
    REQUIRE(put_as(*place.store, {.key = "kept"}, half).ok());
    REQUIRE(
        put_as(*place.store, {.key = "cached", .has_source = true}, random_bytes(8192, 3)).ok());
    auto refused = put_as(*place.store, {.key = "much"}, much);
    CHECK(refused.status().code() == Code::Full);
    CHECK(refused.status().message().find("drop objects") != std::string::npos);
    CHECK(place.store->find("cached") != nullptr);  // it would not have helped
    CHECK(put_as(*place.store, {.key = "more"}, half).ok());
    CHECK(place.store->find("cached") == nullptr);  // this time it did
    CHECK(contents(*place.store, "kept") == half);
    auto huge = place.store->create({.key = "huge", .size = ~std::uint64_t{0}});
    CHECK(huge.status().code() == Code::Full);
    CHECK(place.store->usage(Tier::Memory).reserved == 0);
    CHECK(place.store->counters().refused_full == 2);
}

TEST_CASE("rule 10: only what has a source is evicted") {
    StoreDir place(1 << 20, 0);
    std::string bytes = random_bytes(256 << 10, 1);
    REQUIRE(put_as(*place.store, {.key = "own"}, bytes).ok());
    REQUIRE(put_as(*place.store, {.key = "free", .has_source = true}, bytes).ok());
    for (int i = 0; i < 5; ++i)
        CHECK(put_as(*place.store, {.key = "pass" + std::to_string(i), .has_source = true}, bytes)
                  .ok());
    CHECK(place.store->find("own") != nullptr);
    CHECK(place.store->find("free") == nullptr);
    std::string large = random_bytes(700 << 10, 2);
    CHECK(put_as(*place.store, {.key = "large", .has_source = true}, large).ok());
    CHECK(contents(*place.store, "own") == bytes);
}

TEST_CASE("what has a source goes to the disk where memory is full, and evicts only after that") {
    StoreDir place(1 << 20, 1 << 20);
    std::string bytes = random_bytes(400 << 10, 1);
    auto cached = [&](const std::string& key) {
        return put_as(*place.store, {.key = key, .has_source = true}, bytes);
    };
    REQUIRE(put_as(*place.store, {.key = "own"}, bytes).ok());
    CHECK((*cached("a"))->tier == Tier::Memory);
    CHECK((*cached("b"))->tier == Tier::Disk);
    CHECK((*cached("c"))->tier == Tier::Disk);
    CHECK(place.store->counters().evicted == 0);
    CHECK((*cached("d"))->tier == Tier::Memory);  // in place of the first
    CHECK(place.store->find("a") == nullptr);
    CHECK(place.store->counters().spilled == 2);
    for (std::string key : {"own", "b", "c", "d"}) CHECK(contents(*place.store, key) == bytes);
    // Objects never spill, and files give way to them in both tiers.
    REQUIRE(put_as(*place.store, {.key = "more"}, bytes).ok());
    CHECK(put_as(*place.store, {.key = "too much"}, bytes).status().code() == Code::Full);
    CHECK((*cached("e"))->tier == Tier::Disk);
    for (std::string key : {"x", "y"})
        REQUIRE(put_as(*place.store, {.key = key, .tier = Tier::Disk}, bytes).ok());
    CHECK(place.store->room_for_file(Tier::Memory, bytes.size()).code() == Code::Full);
    CHECK(cached("f").status().code() == Code::Full);
    for (Tier tier : {Tier::Memory, Tier::Disk}) CHECK(place.store->usage(tier).reserved == 0);
}

TEST_CASE("small objects count with what they really take") {
    StoreDir place(1 << 20, 1 << 20);
    int stored = 0;
    while (put(*place.store, "empty" + std::to_string(stored), "").ok()) ++stored;
    CHECK(stored > 1000);
    CHECK(stored < 10'000);
    int files = 0;
    while (
        put_as(*place.store, {.key = "tiny" + std::to_string(files), .tier = Tier::Disk}, "x").ok())
        ++files;
    CHECK(files == 256);  // pages
}

TEST_CASE("the capacity holds at every moment, however many write") {
    constexpr std::uint64_t kCapacity = 2 << 20;
    StoreDir place(kCapacity);
    std::atomic<bool> done{false};
    std::atomic<int> stored{0}, wrong{0};
    std::thread watch([&] {
        while (!done) {
            Usage usage = place.store->usage(Tier::Memory);
            // Tombstones alone may go beyond it: none is ever refused.
            std::uint64_t most = kCapacity + 300 * place.store->notice_digest().first;
            if (usage.occupied + usage.reserved > most) ++wrong;
            std::this_thread::sleep_for(100us);
        }
    });
    std::vector<std::thread> writers;
    std::array<std::atomic<int>, 40> generation{};  // a key that was dropped is dead
    for (unsigned t = 0; t < 4; ++t) {
        writers.emplace_back([&, t] {
            std::mt19937_64 random(t);
            for (int i = 0; i < 40; ++i) {
                std::size_t number = random() % 40;
                std::string key = std::to_string(number) + "/" + std::to_string(generation[number]);
                std::string bytes = random_bytes(100'000 + 5'000 * number, number);
                bool source = number % 2 == 0;
                auto result = put_as(*place.store, {.key = key, .has_source = source}, bytes);
                if (result.ok()) {
                    ++stored;
                } else if (Code code = result.status().code();
                           code != Code::Full && code != Code::Busy && code != Code::Damaged &&
                           place.store->absent(key).code() != Code::Dropped) {
                    ++wrong;
                }
                std::string found = contents(*place.store, key);
                if (found != bytes && found.front() != '<') ++wrong;
                if (random() % 3 != 0) continue;
                ++generation[number];
                place.store->drop(key);
            }
        });
    }
    for (auto& writer : writers) writer.join();
    done = true;
    watch.join();
    CHECK(wrong == 0);
    CHECK(stored > 30);
    for (auto& object : place.store->list("", "", 1000)) place.store->drop(object->key);
    Usage usage = place.store->usage(Tier::Memory);
    CHECK(usage.objects + usage.bytes + usage.reserved == 0);
    CHECK(usage.occupied == 0);
    CHECK(files_in(place.tier(Tier::Memory)) == 0);
}

TEST_CASE("evictable room is enough for all who want it at once") {
    // One evicts the large file, and while that is still being removed the others ask for room.
    constexpr std::uint64_t kCapacity = 64 << 20;
    StoreDir place(kCapacity);
    std::string large = random_bytes(kCapacity, 1);
    for (int round = 0; round < 3; ++round) {
        REQUIRE(put_as(*place.store, {.key = "large", .has_source = true}, large).ok());
        std::atomic<int> refused{0};
        std::latch start(4), all_asked(4);
        std::vector<std::thread> writers;
        for (int t = 0; t < 4; ++t) {
            writers.emplace_back([&, t] {
                start.arrive_and_wait();
                auto writer =
                    place.store->create({.key = std::to_string(t), .size = kCapacity / 4});
                if (!writer.ok()) ++refused;
                all_asked.arrive_and_wait();
            });
        }
        for (auto& writer : writers) writer.join();
        CHECK(refused == 0);
        CHECK(place.store->find("large") == nullptr);
    }
}

TEST_CASE("a list comes in order, in pages, by prefix") {
    StoreDir place;
    for (std::string key : {"b/2", "a", "b/1", "c", "b/3"})
        REQUIRE(put(*place.store, key, key).ok());
    auto keys = [&](const std::string& prefix, const std::string& after, std::size_t most) {
        std::string joined;
        for (auto& object : place.store->list(prefix, after, most)) joined += object->key + " ";
        return joined;
    };
    CHECK(keys("", "", 10) == "a b/1 b/2 b/3 c ");
    CHECK(keys("b/", "", 10) == "b/1 b/2 b/3 ");
    CHECK(keys("b/", "b/1", 1) == "b/2 ");
    CHECK(keys("b/", "b/3", 10) == "");
    CHECK(keys("b/", "z", 10) == "");
}
