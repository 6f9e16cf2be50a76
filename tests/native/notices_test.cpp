// Rule 9, dropping is final: a tombstone outlives the object, spreads, and lets nothing back in.
#include "store/notices.hpp"

#include <algorithm>
#include <atomic>
#include <numeric>
#include <random>
#include <thread>

#include "base/hash.hpp"
#include "support.hpp"

using namespace holdfast;
using namespace holdfast::test;

namespace {

std::vector<std::uint32_t> all_buckets() {
    std::vector<std::uint32_t> all(Notices::kBuckets);
    std::iota(all.begin(), all.end(), 0u);
    return all;
}

}  // namespace

TEST_CASE("rule 9: sets of notices are equal if and only if their digests are") {
    Notices one, other;
    std::vector<std::string> keys;
    for (int i = 0; i < 2000; ++i) keys.push_back("key" + std::to_string(i));
    for (auto& key : keys) CHECK(one.add({Topic::Tombstone, key}));
    CHECK_FALSE(one.add({Topic::Tombstone, keys[5]}));
    std::shuffle(keys.begin(), keys.end(), std::mt19937_64(1));
    std::string last = Notice{Topic::Tombstone, keys.back()}.encode();
    keys.pop_back();
    for (auto& key : keys) CHECK(other.add({Topic::Tombstone, key}));
    CHECK(other.digest() != one.digest());
    // Only the bucket of the one that is missing differs, and it holds that one.
    std::vector<std::uint32_t> different;
    for (std::uint32_t i = 0; i < Notices::kBuckets; ++i)
        if (one.buckets()[i] != other.buckets()[i]) different.push_back(i);
    CHECK(different == std::vector<std::uint32_t>{static_cast<std::uint32_t>(xxh3_64(last) >> 56)});
    for (auto& encoded : one.in(different)) other.add(*Notice::decode(encoded));
    CHECK(other.digest() == one.digest());
    CHECK(other.count() == one.count());
    CHECK(other.buckets() == one.buckets());
    CHECK(one.in({256, 1'000'000}).empty());
    CHECK(one.in(all_buckets()).size() == 2000);
    // The same text of another topic is another notice.
    CHECK_FALSE(one.contains(Topic::Path, "key5"));
    CHECK(one.add({Topic::Path, "key5"}));
    one.forget({Topic::Tombstone, "key5"});
    CHECK_FALSE(one.contains(Topic::Tombstone, "key5"));
    CHECK(one.contains(Topic::Path, "key5"));
    std::size_t bytes = 0;
    for (auto& encoded : one.in(all_buckets())) bytes += encoded.size();
    CHECK(one.bytes() == bytes);
}

TEST_CASE("a notice is as long as a key, or as a roster") {
    auto reads = [](char topic, std::size_t text) {
        return Notice::decode(topic + std::string(text, 'x')).has_value();
    };
    for (char topic : {'t', 'w', 'p', 'r'}) {
        CHECK(reads(topic, Notice::kMost - 1));
        CHECK_FALSE(reads(topic, Notice::kMost));
    }
    CHECK(reads('s', Notice::kMostRoster));
    CHECK_FALSE(reads('s', Notice::kMostRoster + 1));
    CHECK_FALSE(reads('x', 1));
    CHECK_FALSE(Notice::decode("").has_value());
}

TEST_CASE("rule 9: what was dropped cannot be put or got again, only dropped") {
    Node node;
    AgentClient remote(kKey);
    for (std::size_t size : {std::size_t{100}, std::size_t{200'000}}) {
        std::string key = std::to_string(size), bytes = random_bytes(size, 1);
        REQUIRE(put(remote, {&node}, key, bytes).ok());
        for (int i = 0; i < 2; ++i)
            CHECK(remote.drop(node.tcp, {key, {node.number}}, kDeadline).ok());
        Status again = put(remote, {&node}, key, bytes);
        CHECK(again.code() == Code::KeyExists);
        CHECK(again.message().find("was dropped") != std::string::npos);
        CHECK(get(remote, node.tcp, {key}).status().code() == Code::Dropped);
    }
    // Also where it never was: the caller knows that it is somewhere.
    CHECK(remote.drop(node.tcp, {"elsewhere", {node.number}}, kDeadline).ok());
    CHECK(put(remote, {&node}, "elsewhere", "bytes").code() == Code::KeyExists);
    CHECK(node.store().notice_digest().first == 3);
    CHECK(node.store().counters().dropped == 2);
    CHECK(node.store().list("", "", 10).empty());
    CHECK(files_in(node.tier(Tier::Memory)) == 0);
}

TEST_CASE("rule 9: a drop during a put leaves no copy behind, at any owner") {
    Node a, b;
    agree({&a, &b});
    AgentClient remote(kKey);
    std::string bytes = random_bytes(1'000'000, 1);
    for (Node* first : {&a, &b}) {  // who hears of it first
        std::string name = key_of({&a, &b}, first == &a ? "head" : "tail");
        Fd fd = raw_connection(a.local);
        Header header{.op = Op::Put,
                      .flags = kAskFirst | kCrcFollows,
                      .body_bytes = bytes.size(),
                      .deadline_ms = 5000};
        PutMessage message{name, Tier::Memory, {a.number, b.number}, {b.tcp}};
        REQUIRE(send_all(fd.get(), frame(header, message.encode())));
        REQUIRE(decode_header(receive_some(fd.get(), kHeaderBytes).data())->has(kGoOn));
        REQUIRE(send_all(fd.get(), bytes.substr(0, 500'000)));
        CHECK(remote.drop(first->tcp, {name, {a.number, b.number}}, kDeadline).ok());
        REQUIRE(send_all(fd.get(), bytes.substr(500'000)));
        std::uint32_t crc = crc32c(0, bytes.data(), bytes.size());
        REQUIRE(send_all(fd.get(), MetaWriter().number(crc).take()));
        std::string reply;
        eventually([&] { return !(reply = receive_some(fd.get(), 4096)).empty(); });
        CHECK(decode_header(reply.data())->status == Code::KeyExists);
        Node* second = first == &a ? &b : &a;
        CHECK(remote.drop(second->tcp, {name, {a.number, b.number}}, kDeadline).ok());
    }
    for (Node* node : {&a, &b}) {
        CHECK(eventually([&] { return node->store().usage(Tier::Memory).reserved == 0; }));
        CHECK(node->store().list("", "", 10).empty());
        CHECK(files_in(node->tier(Tier::Memory)) == 0);
    }
}

TEST_CASE("rule 9: a pull brings nothing back that was dropped here, there or meanwhile") {
    Node a, b;
    for (std::string key : {"here", "there", "twice"}) REQUIRE(put(a.store(), key, "bytes").ok());
    b.store().drop("here");
    CHECK(b.pull({"here", a.tcp}).status().code() == Code::Dropped);
    a.store().drop("there");
    auto there = b.pull({"there", a.tcp});
    CHECK(there.status().code() == Code::Dropped);
    CHECK(there.status().at() == a.tcp);
    // Between the request and the commit: the writer finds the tombstone.
    auto writer = b.store().create({.key = "twice", .size = 5});
    REQUIRE(writer.ok());
    CHECK(writer->append("bytes", 5).ok());
    CHECK(b.store().learn(tombstones({"twice"})) == 1);
    CHECK(writer->commit(crc32c(0, "bytes", 5)).status().code() == Code::KeyExists);
    CHECK(b.store().list("", "", 10).empty());
}

TEST_CASE("rule 9: buried keys take their objects with them and refuse writers") {
    StoreDir place;
    std::string bytes = random_bytes(100'000, 1);
    REQUIRE(put(*place.store, "a", bytes).ok());
    REQUIRE(put_as(*place.store, {.key = "b", .tier = Tier::Disk}, bytes).ok());
    REQUIRE(put(*place.store, "stays", "x").ok());
    auto object = place.store->find("a");
    CHECK(place.store->learn(tombstones({"a", "b", "c", "a"})) == 3);
    CHECK(place.store->learn(tombstones({"c", "d"})) == 1);
    for (std::string key : {"a", "b", "c", "d"}) {
        CHECK(put(*place.store, key, bytes).status().code() == Code::KeyExists);
        CHECK(place.store->absent(key).code() == Code::Dropped);
    }
    CHECK(place.store->notice_digest().first == 4);
    CHECK(contents(*place.store, "stays") == "x");
    CHECK(files_in(place.tier(Tier::Memory)) + files_in(place.tier(Tier::Disk)) == 0);
    CHECK(place.store->verify(object).code() == Code::Dropped);  // who held on to it is told
    CHECK(place.store->counters().damaged == 0);
}

TEST_CASE("rule 9: tombstones take no room from objects, and what they take is told") {
    StoreDir place(64 << 10);
    std::size_t stored = 0;
    while (put(*place.store, "key" + std::to_string(stored), std::string(1000, 'x')).ok()) ++stored;
    Usage before = place.store->usage(Tier::Memory);
    std::vector<std::string> keys;
    for (int i = 0; i < 1000; ++i) keys.push_back("other" + std::to_string(i));
    CHECK(place.store->learn(tombstones(keys)) == 1000);
    CHECK(place.store->usage(Tier::Memory).occupied == before.occupied);
    CHECK(place.store->notice_bytes() >= 1000 * std::string("other123").size());
    for (std::size_t i = 0; i < stored; ++i) place.store->drop("key" + std::to_string(i));
    CHECK(place.store->usage(Tier::Memory).occupied == 0);
    for (std::size_t i = 0; i < stored; ++i)
        CHECK(put(*place.store, "new" + std::to_string(i), std::string(1000, 'x')).ok());
}

TEST_CASE("rule 9: drops that race with puts leave neither object nor file") {
    StoreDir place;
    std::string bytes = random_bytes(70'000, 1);
    constexpr int kKeys = 150;
    std::atomic<int> turn{0}, wrong{0};
    std::thread dropper([&] {
        for (int i = 0; i < kKeys; ++i) {
            while (turn < i) std::this_thread::yield();
            place.store->drop("key" + std::to_string(i));
        }
    });
    for (int i = 0; i < kKeys; ++i) {
        std::string key = "key" + std::to_string(i);
        turn = i;
        auto object = put(*place.store, key, bytes);
        if (!object.ok() && object.status().code() != Code::KeyExists) ++wrong;
        std::string found = contents(*place.store, key);
        if (found != bytes && found.front() != '<') ++wrong;
    }
    dropper.join();
    CHECK(wrong == 0);
    CHECK(place.store->counters().damaged == 0);
    CHECK(place.store->list("", "", 10).empty());
    CHECK(files_in(place.tier(Tier::Memory)) == 0);
    CHECK(place.store->usage(Tier::Memory).reserved == 0);
}
