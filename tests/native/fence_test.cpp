// Rule 4, fencing: who computes other owners than the sender refuses, and nothing is left anywhere.
#include "support.hpp"

using namespace holdfast;
using namespace holdfast::test;

namespace {

bool empty(Node& node) {
    return eventually([&] {
        for (Tier tier : {Tier::Memory, Tier::Disk}) {
            Usage usage = node.store().usage(tier);
            if (usage.objects + usage.reserved != 0 || files_in(node.tier(tier)) != 0) return false;
        }
        return node.store().list("", "", 10).empty();
    });
}

}  // namespace

TEST_CASE("rule 4: a put under another list of owners stores nothing anywhere, whoever sees it") {
    Node a, b, c, other;
    AgentClient remote(kKey);
    // Each of the chain in turn has another view: the first sees it at once, the last only after
    // all before it have reserved room.
    for (Node* stale : {&a, &b, &c}) {
        for (std::size_t size : {std::size_t{1000}, std::size_t{500'000}}) {
            agree({&a, &b, &c});
            std::string key = key_of({&a, &b, &c}), bytes = random_bytes(size, size);
            agree({stale, &other}, 2);
            Status status = put(remote, {&a, &b, &c}, key, bytes);
            CHECK(status.code() == Code::StaleView);
            CHECK(status.at() == stale->tcp);
            for (Node* node : {&a, &b, &c}) CHECK(empty(*node));
        }
    }
    agree({&a, &b, &c});
    CHECK(put(remote, {&a, &b, &c}, key_of({&a, &b, &c}), "bytes").ok());
}

TEST_CASE("rule 4: another order, a part, or somebody else's number is another list") {
    Node a, b, c;
    agree({&a, &b, &c});
    AgentClient remote(kKey);
    std::string key = key_of({&a, &b, &c});
    CHECK(put(remote, {&b, &a, &c}, key, "bytes").code() == Code::StaleView);
    CHECK(put(remote, {&a, &c}, key, "bytes").code() == Code::StaleView);
    CHECK(put(remote, {&b}, key, "bytes").code() == Code::StaleView);
    CHECK(remote.put({a.tcp}, {a.number + 1000}, key, "bytes", Tier::Memory, kDeadline).code() ==
          Code::StaleView);
    CHECK(put(remote, {&a, &b}, key, "bytes").ok());  // two copies: the first two owners
    CHECK(c.store().find(key) == nullptr);
}

TEST_CASE("rule 4: the right list at the wrong address is refused") {
    Node a, b, c;
    agree({&a, &b, &c});
    AgentClient remote(kKey);
    std::string key = key_of({&a, &b});
    Status status =
        remote.put({a.tcp, c.tcp}, {a.number, b.number}, key, "bytes", Tier::Memory, kDeadline);
    CHECK(status.code() == Code::StaleView);
    CHECK(status.at() == c.tcp);
    CHECK((empty(a) && empty(c)));
}

TEST_CASE("rule 4: who knows no view yet accepts nothing, and who has refused goes on") {
    TempDir dir;
    auto made = Agent::make({kKey, {{{dir / "mem", 1 << 20}, {dir / "disk", 1 << 20}}}, 0});
    REQUIRE(made.ok());
    Agent& fresh = **made;
    std::string address = "unix:" + (dir / "socket");
    REQUIRE(fresh.server().listen(address).ok());
    fresh.server().start();
    AgentClient remote(kKey);
    for (std::size_t size : {std::size_t{10}, std::size_t{100'000}}) {
        std::string bytes = random_bytes(size, 1);
        CHECK(remote.put({address}, {1}, "key", bytes, Tier::Memory, kDeadline).code() ==
              Code::StaleView);
        CHECK(remote.drop(address, {"key", {1}}, kDeadline).code() == Code::StaleView);
    }
    fresh.set_self(1);
    fresh.set_placement(Placement::make(Ring({"one"}, 1), {1}, {""}, 1));
    CHECK(remote.put({address}, {1}, "key", "bytes", Tier::Memory, kDeadline).ok());
    CHECK(*get(remote, address, {"key"}) == "bytes");  // gets are never refused
    fresh.set_placement(Placement::make(Ring({"one", "two"}, 1), {7, 8}, {"", ""}, 2));
    CHECK(*get(remote, address, {"key"}) == "bytes");
}

TEST_CASE("rule 4: a drop under another list of owners drops nothing") {
    Node a, b, other;
    agree({&a, &b});
    AgentClient remote(kKey);
    std::string key = key_of({&a, &b});
    REQUIRE(put(remote, {&a, &b}, key, "bytes").ok());
    CHECK(remote.drop(a.tcp, {key, {b.number, a.number}}, kDeadline).code() == Code::StaleView);
    agree({&a, &other}, 2);
    CHECK(remote.drop(a.tcp, {key, {a.number, b.number}}, kDeadline).code() == Code::StaleView);
    CHECK(*get(remote, a.tcp, {key}) == "bytes");
    agree({&a, &b});
    CHECK(remote.drop(a.tcp, {key, {a.number, b.number}}, kDeadline).ok());
    CHECK(a.store().find(key) == nullptr);
}

TEST_CASE("rule 4: a drop at fewer owners than copies were wanted drops nothing") {
    Node a, b, c;
    agree({&a, &b, &c});
    AgentClient remote(kKey);
    std::string key = key_of({&a, &b, &c});
    REQUIRE(put(remote, {&a, &b, &c}, key, "bytes").ok());
    for (Node* node : {&a, &b, &c}) {
        CHECK(remote.drop(node->tcp, {key, {a.number, b.number}}, kDeadline).code() ==
              Code::StaleView);
        CHECK(remote.drop(node->tcp, {key, {a.number}}, kDeadline).code() == Code::StaleView);
        CHECK(*get(remote, node->tcp, {key}) == "bytes");
    }
    std::vector<std::uint64_t> all{a.number, b.number, c.number};
    CHECK(remote.drop(a.tcp, {key, all}, kDeadline).ok());
    agree({&b, &c});  // where fewer live than are wanted, all of them are the list
    std::string left = key_of({&b, &c});
    REQUIRE(put(remote, {&b, &c}, left, "bytes").ok());
    agree({&b});
    CHECK(remote.drop(b.tcp, {left, {b.number}}, kDeadline).ok());
    CHECK(b.store().find(left) == nullptr);
}

TEST_CASE("a put or drop without owners, or with too many, is refused as bad input") {
    Node node;
    AgentClient remote(kKey);
    std::vector<std::uint64_t> many(kMaxCopies + 1);
    for (std::size_t i = 0; i < many.size(); ++i) many[i] = i;
    CHECK(remote.put({}, {}, "key", "", Tier::Memory, kDeadline).code() == Code::BadInput);
    CHECK(remote.put({node.tcp}, {}, "key", "", Tier::Memory, kDeadline).code() == Code::BadInput);
    CHECK(remote.put({node.tcp}, {1, 2}, "key", "", Tier::Memory, kDeadline).code() ==
          Code::BadInput);
    CHECK(remote.drop(node.tcp, {"key", {}}, kDeadline).code() == Code::BadInput);
    CHECK(remote.drop(node.tcp, {"key", many}, kDeadline).code() == Code::BadInput);
    // The same from one who does not go through our client.
    Fd fd = raw_connection(node.local);
    for (const PutMessage& message : {PutMessage{"key"}, PutMessage{"key", Tier::Memory, many}}) {
        send_all(fd.get(), frame({.op = Op::Put}, message.encode()));
        CHECK(decode_header(receive_some(fd.get(), 1000).data())->status == Code::BadInput);
    }
}
