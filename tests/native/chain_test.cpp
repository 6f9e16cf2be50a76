// Puts along a chain of owners: all of them have it, or the sender hears who failed and why.
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "support.hpp"

using namespace holdfast;
using namespace holdfast::test;

namespace {

bool settled(Node& node) {
    return eventually([&] {
        return node.store().usage(Tier::Memory).reserved == 0 &&
               node.store().usage(Tier::Disk).reserved == 0;
    });
}

// A put whose body the test sends itself.
struct SlowPut {
    SlowPut(const std::vector<Node*>& owners, const std::string& key, std::size_t size)
        : fd(raw_connection(owners.front()->local)) {
        PutMessage message{key};
        for (Node* owner : owners) {
            message.owners.push_back(owner->number);
            if (owner != owners.front()) message.onward.push_back(owner->tcp);
        }
        Header header{.op = Op::Put,
                      .flags = kAskFirst | kCrcFollows,
                      .body_bytes = size,
                      .deadline_ms = 5000};
        send_all(fd.get(), frame(header, message.encode()));
        auto reply = decode_header(receive_some(fd.get(), kHeaderBytes).data());
        REQUIRE(reply.ok());
        REQUIRE(reply->has(kGoOn));
    }
    Fd fd;
};

}  // namespace

TEST_CASE("two and three owners all hold what was acknowledged") {
    Node a, b, c;
    agree({&a, &b, &c});
    AgentClient remote(kKey);
    for (std::size_t size : {0u, 1u, 1000u, 65'535u, 65'536u, 65'537u, 1'000'000u}) {
        for (Tier tier : {Tier::Memory, Tier::Disk}) {
            std::string stem = std::to_string(size) + (tier == Tier::Disk ? "disk" : "memory");
            std::string bytes = random_bytes(size, size);
            std::string three = key_of({&b, &a, &c}, stem), two = key_of({&c, &a}, stem);
            REQUIRE(remote
                        .put({b.tcp, a.local, c.tcp}, {b.number, a.number, c.number}, three, bytes,
                             tier, kDeadline)
                        .ok());
            CHECK(put(remote, {&b, &a, &c}, three, bytes, tier).ok());  // again
            REQUIRE(put(remote, {&c, &a}, two, bytes, tier).ok());
            for (Node* node : {&a, &b, &c}) {
                CHECK(*get(remote, node->tcp, {three}) == bytes);
                CHECK(node->store().find(three)->tier == tier);
                CHECK(node->store().find(three)->copies == 3);
            }
            for (Node* node : {&a, &c}) CHECK(*get(remote, node->tcp, {two}) == bytes);
            CHECK(b.store().find(two) == nullptr);
        }
    }
    CHECK((settled(a) && settled(b) && settled(c)));
}

TEST_CASE("other bytes under a taken key reach no owner behind the one that has it") {
    Node a, b;
    agree({&a, &b});
    AgentClient remote(kKey);
    for (std::size_t size : {std::size_t{1000}, std::size_t{2'000'000}}) {
        std::string bytes = random_bytes(size, 1), other = bytes;
        other.back() ^= 1;
        for (bool first : {true, false}) {
            std::string key = key_of({&a, &b}, std::to_string(size) + (first ? "first" : "last"));
            Node &has = first ? a : b, &lacks = first ? b : a;
            REQUIRE(put(has.store(), key, bytes).ok());
            CHECK(put(remote, {&a, &b}, key, other).code() == Code::KeyExists);
            CHECK(settled(lacks));
            CHECK(lacks.store().find(key) == nullptr);  // else two copies would differ
            CHECK(put(remote, {&a, &b}, key, bytes).ok());
        }
    }
}

TEST_CASE("an owner that is gone or full is named") {
    Node a, b, full(1 << 20);
    auto gone = std::make_unique<Node>();
    agree({&a, &b, &full, gone.get()});
    std::string lost = key_of({&a, &b, gone.get()}), crowded = key_of({&a, &full, &b});
    std::string address = gone->tcp;
    std::uint64_t number = gone->number;
    gone.reset();
    AgentClient remote(kKey);
    for (std::size_t size : {std::size_t{50'000}, std::size_t{2'000'000}}) {
        std::string bytes = random_bytes(size, 1);
        Status status = remote.put({a.tcp, b.tcp, address}, {a.number, b.number, number}, lost,
                                   bytes, Tier::Memory, kDeadline);
        CHECK(status.code() == Code::Unavailable);
        CHECK(status.at() == address);
        CHECK(a.store().find(lost) == nullptr);
        CHECK(b.store().find(lost) == nullptr);
    }
    Status status = put(remote, {&a, &full, &b}, crowded, random_bytes(2'000'000, 1));
    CHECK(status.code() == Code::Full);
    CHECK(status.at() == full.tcp);
    CHECK((settled(a) && settled(b) && settled(full)));
}

TEST_CASE("the last owner dies in the middle of a put") {
    Node a, b;
    auto c = std::make_unique<Node>();
    agree({&a, &b, c.get()});
    std::string bytes = random_bytes(8'000'000, 1), last = c->tcp;
    std::string key = key_of({&a, &b, c.get()});
    SlowPut put({&a, &b, c.get()}, key, bytes.size());
    REQUIRE(send_all(put.fd.get(), bytes.substr(0, 2'000'000)));
    c.reset();
    std::uint32_t crc = crc32c(0, bytes.data(), bytes.size());
    REQUIRE(send_all(put.fd.get(), bytes.substr(2'000'000)));
    REQUIRE(send_all(put.fd.get(), MetaWriter().number(crc).take()));
    std::string reply;
    eventually([&] { return !(reply = receive_some(put.fd.get(), 4096)).empty(); });
    auto header = decode_header(reply.data());
    REQUIRE(header.ok());
    // On a busy machine its end may take longer than the owner before it waits.
    bool died = header->status == Code::Unavailable || header->status == Code::DeadlineMissed;
    CHECK(died);
    MetaReader meta(std::string_view(reply).substr(kHeaderBytes));
    CHECK(meta.text() == last);
    CHECK((settled(a) && settled(b)));
    CHECK(a.store().find(key) == nullptr);
    CHECK(b.store().find(key) == nullptr);
}

TEST_CASE("a sender that dies in the middle leaves nothing reserved anywhere") {
    Node a, b, c;
    agree({&a, &b, &c});
    std::string key = key_of({&a, &b, &c});
    {
        SlowPut put({&a, &b, &c}, key, 10'000'000);
        REQUIRE(send_all(put.fd.get(), std::string(3'000'000, 'x')));
        for (Node* node : {&a, &b, &c}) CHECK(node->store().usage(Tier::Memory).reserved > 0);
    }
    for (Node* node : {&a, &b, &c}) {
        CHECK(settled(*node));
        CHECK(files_in(node->tier(Tier::Memory)) == 0);
    }
    AgentClient remote(kKey);
    CHECK(put(remote, {&a, &b, &c}, key, "bytes").ok());
}

TEST_CASE("bytes that do not match the sender's checksum are stored nowhere") {
    Node a, b;
    agree({&a, &b});
    std::string bytes = random_bytes(1'000'000, 1), key = key_of({&a, &b});
    SlowPut put({&a, &b}, key, bytes.size());
    REQUIRE(send_all(put.fd.get(), bytes));
    REQUIRE(send_all(put.fd.get(), "oops"));
    std::string reply = receive_some(put.fd.get(), 4096);
    REQUIRE(reply.size() >= kHeaderBytes);
    CHECK(decode_header(reply.data())->status == Code::Damaged);
    CHECK((settled(a) && settled(b)));
    CHECK(a.store().find(key) == nullptr);
    CHECK(b.store().find(key) == nullptr);
}

TEST_CASE("chains in opposite directions do not block each other") {
    Node a, b, c;
    std::atomic<int> wrong{0}, stored{0};
    std::vector<std::thread> threads;
    agree({&a, &b, &c});
    const std::vector<Node*> ways[] = {{&a, &b, &c}, {&c, &b, &a}, {&b, &a}, {&a, &b}};
    AgentClient remote(kKey);
    // More than a lane has threads, so that every lane is in demand everywhere.
    for (int t = 0; t < 40; ++t) {
        threads.emplace_back([&, t] {
            for (int i = 0; i < 2; ++i) {
                auto& way = ways[t % 4];
                std::string key = key_of(way, std::to_string(t) + "/" + std::to_string(i));
                std::string bytes =
                    random_bytes(i == 0 ? 10'000 : 300'000, static_cast<std::uint64_t>(t));
                if (!put(remote, way, key, bytes).ok())
                    ++wrong;
                else
                    ++stored;
                auto got = get(remote, way.back()->tcp, {key});
                if (!got.ok() || *got != bytes) ++wrong;
            }
        });
    }
    for (auto& thread : threads) thread.join();
    CHECK(wrong == 0);
    CHECK(stored == 80);
}
