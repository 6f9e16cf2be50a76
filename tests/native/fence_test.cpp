// Rule 4, fencing: who computes other owners than the sender refuses, and nothing is left anywhere.
#include <algorithm>

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

// One view for all of them, in which a key space with one slot belongs to them in this order.
void agree_on_slot(const std::vector<Node*>& nodes, std::size_t may_leave_out) {
    std::vector<std::string> names, addresses;
    std::vector<std::uint64_t> numbers;
    for (Node* node : nodes) {
        names.push_back(node->name());
        addresses.push_back(node->tcp);
        numbers.push_back(node->number);
    }
    Ring ring(names, 16);
    std::vector<std::uint64_t> standing;
    for (auto& name : ring.nodes())
        standing.push_back(numbers[std::ranges::find(names, name) - names.begin()]);
    auto placement = Placement::make(ring, standing, addresses, 7, {}, std::nullopt,
                                     {{"@slot/", {numbers}, may_leave_out}});
    for (Node* node : nodes) node->agent().set_placement(placement);
}

Status put_without(AgentClient& remote, const std::vector<Node*>& owners,
                   const std::vector<Node*>& without, const std::string& key, std::size_t size = 10,
                   std::uint16_t up_to = 0) {
    std::vector<std::string> addresses;
    std::vector<std::uint64_t> numbers, left_out;
    for (Node* owner : owners) addresses.push_back(owner->tcp), numbers.push_back(owner->number);
    for (Node* node : without) left_out.push_back(node->number);
    return remote.put(addresses, numbers, key, random_bytes(size, 1), Tier::Memory, kDeadline,
                      {.up_to = up_to, .without = left_out});
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

TEST_CASE("rule 4: where fewer owners will do, they are all that there are") {
    Node a, b, c;
    agree({&a, &b, &c});
    AgentClient remote(kKey);
    std::string key = key_of({&a, &b, &c});
    auto put_at = [&](const std::vector<Node*>& owners, std::uint16_t up_to) {
        std::vector<std::string> addresses;
        std::vector<std::uint64_t> numbers;
        for (Node* owner : owners) {
            addresses.push_back(owner->tcp);
            numbers.push_back(owner->number);
        }
        return remote.put(addresses, numbers, key, "bytes", Tier::Memory, kDeadline,
                          {.header = ObjectHeader::of("header"), .up_to = up_to});
    };
    // Who knows only some of us is told.
    CHECK(put_at({&a}, 3).code() == Code::StaleView);
    CHECK(put_at({&a, &b}, 3).code() == Code::StaleView);
    CHECK(put_at({&a, &b, &c}, 2).code() == Code::BadInput);
    for (Node* node : {&a, &b, &c}) CHECK(empty(*node));
    agree({&a, &b});
    CHECK(put_at({&a, &b}, 3).ok());
    agree({&a, &b, &c});
    for (Node* node : {&a, &b}) {
        ObjectPtr object = node->store().find(key);
        REQUIRE(object);
        CHECK(object->copies == 3);
        CHECK(object->least == 1);
        CHECK(object->header.bytes == "header");
    }
    // A drop likewise, also where the object is not yet.
    std::vector<std::uint64_t> two{a.number, b.number}, all{a.number, b.number, c.number};
    for (Node* node : {&a, &b, &c})
        CHECK(remote.drop(node->tcp, {key, two, 3}, kDeadline).code() == Code::StaleView);
    CHECK(remote.drop(c.tcp, {key, all, 3}, kDeadline).ok());
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

TEST_CASE("rule 4: a key space has the owners of its table, and nobody else takes its keys") {
    Node a, b, c;
    agree_on_slot({&c, &a, &b}, 0);
    AgentClient remote(kKey);
    CHECK(put_without(remote, {&c, &a}, {}, "@slot/x").ok());
    CHECK(put_without(remote, {&a, &c}, {}, "@slot/y").code() == Code::StaleView);
    CHECK(put_without(remote, {&c, &b}, {}, "@slot/y").code() == Code::StaleView);
    CHECK((b.store().find("@slot/x") == nullptr && a.store().find("@slot/x") != nullptr));
    CHECK(a.store().strays(10, "").empty());
    CHECK(a.store().survey()[c.number].first == 1);
    std::string key = key_of({&a, &b});  // all other keys lie on the ring
    CHECK(put(remote, {&a, &b}, key, "bytes").ok());
}

TEST_CASE("rule 4: an owner may be left out where its key space allows it and all suspect it") {
    Node a, b, c, d;
    agree_on_slot({&a, &b, &c, &d}, 1);
    AgentClient remote(kKey);
    for (std::size_t size : {std::size_t{10}, std::size_t{100'000}}) {
        CAPTURE(size);
        std::string key = "@slot/" + std::to_string(size);
        for (Node* node : {&a, &b, &c, &d}) node->agent().set_suspects({});
        Status status = put_without(remote, {&a, &c}, {&b}, key, size);
        CHECK(status.code() == Code::StaleView);
        CHECK(status.message().find("considers alive") != std::string::npos);
        // The second of the chain must suspect it, too; until then nothing is left anywhere.
        a.agent().set_suspects({b.number});
        status = put_without(remote, {&a, &c}, {&b}, key, size);
        CHECK(status.code() == Code::StaleView);
        CHECK(status.at() == c.tcp);
        CHECK(eventually([&] { return !a.store().find(key) && !c.store().find(key); }));
        c.agent().set_suspects({d.number, b.number});
        CHECK(put_without(remote, {&a, &b}, {&b}, key, size).code() == Code::StaleView);
        CHECK(put_without(remote, {&a, &c}, {&b}, key, size).ok());
        CHECK((a.store().find(key) && c.store().find(key) && !b.store().find(key)));
        // Not ours by the whole list, so that it is offered to its owners.
        REQUIRE(c.store().strays(10, "").size() == 1);
        // Nor does a drop go around an owner that its receiver trusts.
        std::vector<std::uint64_t> left{a.number, c.number};
        CHECK(remote.drop(d.tcp, {.key = key, .owners = left, .without = {b.number}}, kDeadline)
                  .code() == Code::StaleView);
        CHECK(remote.drop(c.tcp, {.key = key, .owners = left, .without = {b.number}}, kDeadline)
                  .ok());
        CHECK(!c.store().find(key));
        CHECK(a.store().find(key));
    }
}

TEST_CASE("rule 4: no more owners are left out than the key space allows, and none of the ring") {
    Node a, b, c, d;
    agree_on_slot({&a, &b, &c, &d}, 1);
    AgentClient remote(kKey);
    for (Node* node : {&a, &b, &c, &d}) node->agent().set_suspects({b.number, c.number});
    Status status = put_without(remote, {&a, &d}, {&b, &c}, "@slot/x");
    CHECK(status.code() == Code::BadInput);
    CHECK(status.message() == "a writer may skip at most 1 of the owners of '@slot/x', not 2");
    CHECK(put_without(remote, {&a, &c}, {&b, &b}, "@slot/x").code() == Code::BadInput);
    std::string key = key_of({&a, &b});
    CHECK(put_without(remote, {&a, &b}, {&c}, key).code() == Code::BadInput);
    CHECK(remote
              .drop(a.tcp, {.key = key, .owners = {a.number, b.number}, .without = {c.number}},
                    kDeadline)
              .code() == Code::BadInput);
    // Who is dead is in no slot: to leave it out says nothing.
    agree_on_slot({&a, &c, &d}, 1);
    for (Node* node : {&a, &c}) node->agent().set_suspects({});
    CHECK(put_without(remote, {&a, &c}, {&b}, "@slot/x").ok());
}

TEST_CASE("rule 4: lists that leave out others have an owner in common, or are refused") {
    Node a, b, c;
    AgentClient remote(kKey);
    auto all_suspect = [&](const std::vector<Node*>& suspects) {
        std::vector<std::uint64_t> numbers;
        for (Node* node : suspects) numbers.push_back(node->number);
        for (Node* node : {&a, &b, &c}) node->agent().set_suspects(numbers);
    };
    // One copy without its owner, who would take other bytes once it is suspected no longer.
    agree_on_slot({&a, &b, &c}, 1);
    all_suspect({&a});
    CHECK(put_without(remote, {&b}, {&a}, "@slot/one").code() == Code::BadInput);
    CHECK(remote
              .drop(b.tcp, {.key = "@slot/one", .owners = {b.number}, .without = {a.number}},
                    kDeadline)
              .code() == Code::BadInput);
    CHECK(put_without(remote, {&b, &c}, {&a}, "@slot/two").ok());
    CHECK(put_without(remote, {&a}, {}, "@slot/two").code() == Code::BadInput);
    // As many as there are, of two: without either, the other would be alone.
    agree_on_slot({&a, &b}, 1);
    CHECK(put_without(remote, {&b}, {&a}, "@slot/fewer", 10, 3).code() == Code::StaleView);
    all_suspect({&b});
    CHECK(put_without(remote, {&a}, {&b}, "@slot/fewer", 10, 3).code() == Code::StaleView);
    CHECK(put_without(remote, {&a, &b}, {}, "@slot/fewer", 10, 3).ok());
    agree_on_slot({&a, &b, &c}, 1);
    CHECK(put_without(remote, {&a, &c}, {&b}, "@slot/of three", 10, 3).ok());
    for (Node* node : {&a, &b, &c}) CHECK(node->store().find("@slot/one") == nullptr);
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
