// Copies from agent to agent.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support.hpp"

using namespace holdfast;
using namespace holdfast::test;

TEST_CASE("a pull makes an equal copy") {
    Node a, b;
    AgentClient remote(kKey);
    for (std::size_t size : {std::size_t{0}, std::size_t{1000}, std::size_t{2'000'000}}) {
        std::string key = std::to_string(size), bytes = random_bytes(size, size);
        REQUIRE(remote.put({a.tcp}, {a.number}, key, bytes, Tier::Memory, kDeadline).ok());
        auto pulled = b.pull({key, a.tcp, Tier::Disk});
        REQUIRE(pulled.ok());
        CHECK((*pulled)->size == size);
        CHECK((*pulled)->tier == Tier::Disk);
        CHECK((*pulled)->crc == a.store().find(key)->crc);
        CHECK(*get(remote, b.tcp, {key}) == bytes);
        CHECK(b.pull({key, a.tcp, Tier::Disk}).ok());  // has it by now
    }
}

TEST_CASE("a pull brings the header, or nothing if that went bad") {
    Node a, b;
    for (std::size_t size : {std::size_t{1000}, std::size_t{200'000}}) {
        std::string key = std::to_string(size), bytes = random_bytes(size, size);
        Store::NewObject wanted{.key = key, .copies = 3, .least = 1};
        wanted.header = ObjectHeader::of("header");
        REQUIRE(put_as(a.store(), wanted, bytes).ok());
        auto pulled = b.pull({key, a.tcp, Tier::Memory});
        REQUIRE(pulled.ok());
        CHECK((*pulled)->header.bytes == "header");
        CHECK((*pulled)->copies == 3);
        CHECK((*pulled)->least == 1);
        CHECK(b.pull({key, a.tcp, Tier::Memory}).ok());
        // The same bytes with another header are something else.
        Node c, d;
        wanted.header = ObjectHeader::of("other");
        REQUIRE(put_as(c.store(), wanted, bytes).ok());
        CHECK(c.pull({key, a.tcp, Tier::Memory}).status().code() == Code::KeyExists);
        // A bit in memory flips.
        const_cast<Object&>(*a.store().find(key)).header.bytes[1] ^= 1;
        CHECK(d.pull({key, a.tcp, Tier::Memory}).status().code() == Code::Damaged);
        CHECK(d.store().find(key) == nullptr);
        CHECK(a.store().absent(key).code() == Code::Damaged);  // it looked again
    }
}

TEST_CASE("a pull where other bytes have the key is refused") {
    Node a, b;
    AgentClient remote(kKey);
    for (std::uint64_t seed : {1, 2}) {
        Node& node = seed == 1 ? a : b;
        REQUIRE(put(node.store(), "key", random_bytes(1000, seed)).ok());
    }
    CHECK(b.pull({"key", a.tcp}).status().code() == Code::KeyExists);
    CHECK(*get(remote, b.tcp, {"key"}) == random_bytes(1000, 2));
}

TEST_CASE("a pull from one who lacks it, is gone or has a bad copy stores nothing") {
    Node a, b;
    auto gone = std::make_unique<Node>();
    std::string address = gone->tcp;
    gone.reset();
    AgentClient remote(kKey);
    CHECK(b.pull({"key", a.tcp}).status().code() == Code::NotFound);
    auto unavailable = b.pull({"key", address});
    CHECK(unavailable.status().code() == Code::Unavailable);
    CHECK(unavailable.status().at() == address);
    CHECK(b.pull({"key", "nonsense"}).status().code() == Code::BadInput);

    std::string bytes = random_bytes(1'000'000, 1);
    REQUIRE(remote.put({a.tcp}, {a.number}, "key", bytes, Tier::Memory, kDeadline).ok());
    std::string path = a.tier(Tier::Memory) + "/" + a.store().find("key")->name;
    REQUIRE(::chmod(path.c_str(), 0600) == 0);
    Fd file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    REQUIRE(::pwrite(file.get(), "?!?!", 4, 500'000) == 4);
    CHECK(b.pull({"key", a.tcp}).status().code() == Code::Damaged);
    CHECK(b.store().find("key") == nullptr);
    CHECK(b.store().usage(Tier::Memory).reserved == 0);
    CHECK(files_in(b.tier(Tier::Memory)) == 0);
}

TEST_CASE("two agents that pull from each other at once do not wait in a circle") {
    Node a, b;
    for (int i = 0; i < 40; ++i) {
        REQUIRE(put(a.store(), "a" + std::to_string(i), random_bytes(100'000, 1)).ok());
        REQUIRE(put(b.store(), "b" + std::to_string(i), random_bytes(100'000, 2)).ok());
    }
    for (int i = 0; i < 40; ++i) {
        std::string key = (i % 2 ? "a" : "b") + std::to_string(i);
        Node &to = i % 2 ? b : a, &from = i % 2 ? a : b;
        to.agent().requests().pull(static_cast<std::uint64_t>(i), {key, from.tcp}, kDeadline);
    }
    std::size_t ended = 0;
    CHECK(eventually([&] {
        for (Node* node : {&a, &b})
            while (auto event = node->agent().events().next()) {
                CHECK_FALSE(std::holds_alternative<event::Failed>(*event));
                ended += std::holds_alternative<event::Pulled>(*event);
            }
        return ended == 40;
    }));
    for (int i = 0; i < 40; ++i)
        CHECK(contents((i % 2 ? b : a).store(), (i % 2 ? "a" : "b") + std::to_string(i)) ==
              random_bytes(100'000, i % 2 ? 1 : 2));
}
