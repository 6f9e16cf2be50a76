// Files of the shared file system that change while they are read.
#include <unistd.h>

#include <latch>
#include <thread>

#include "agent/lanes.hpp"
#include "files/files.hpp"
#include "support.hpp"

using namespace holdfast;
using namespace holdfast::test;

namespace {

constexpr std::size_t kSize = 500'000;  // not read by the thread that opens it

FileOrder order_for(const TempDir& root, Tier tier = Tier::Memory) {
    return {root.path(), root / "file", tier, 1, false, 1 << 30, 0};
}

bool has_no_copy(Node& node, const FileOrder& order) {
    return eventually([&] { return node.store().usage(order.tier).reserved == 0; }) &&
           node.store().list(file_prefix(order.path), "", 10).empty();
}

// While it lives, fills open their files and do not read them.
class FillsHeld {
  public:
    explicit FillsHeld(Node& node) {
        for (int i = 0; i < 64; ++i)
            node.agent().server().pool().run(lane::kFill, [gate = gate_] { gate->wait(); });
    }
    ~FillsHeld() { gate_->count_down(); }

  private:
    std::shared_ptr<std::latch> gate_ = std::make_shared<std::latch>(1);
};

// Does `change` after the node has opened the file that `ask` asks for, and before it reads it.
void change_while(Node& node, const std::function<void()>& ask,
                  const std::function<void()>& change) {
    std::optional<FillsHeld> held(node);
    auto before = node.agent().files().fill_counters().started.load();
    std::thread reader(ask);
    CHECK(eventually([&] { return node.agent().files().fill_counters().started > before; }));
    change();
    held.reset();
    reader.join();
}

// Gives what the reader got.
Result<std::string> read_with(Node& node, const FileOrder& order,
                              const std::function<void()>& change) {
    std::optional<Result<std::string>> got;
    auto ask = [&] {
        AgentClient remote(kKey);
        got = read(remote, node.tcp, order);
    };
    change_while(node, ask, change);
    return std::move(*got);
}

}  // namespace

TEST_CASE(
    "rule 12: a file that changes while it is read fails its readers, and is then the new one") {
    for (std::uint64_t settled_ns : {std::uint64_t{0}, ~std::uint64_t{0} >> 1}) {  // kept, or not
        Node node;
        TempDir root;
        auto order = order_for(root);
        order.settled_ns = settled_ns;
        std::string fresh = random_bytes(kSize, 2);
        write_file(order.path, random_bytes(kSize, 1));
        auto got = read_with(node, order, [&] { write_file(order.path, fresh); });
        CHECK_FALSE(got.ok());
        CHECK(has_no_copy(node, order));
        CHECK_FALSE(node.agent().files().catalog().find(order.path));
        AgentClient remote(kKey);
        CHECK(*read(remote, node.tcp, order) == fresh);
    }
}

TEST_CASE("a program is passed no file that changed while it was read") {
    Node owner, other;
    agree({&owner, &other});
    TempDir root;
    auto order = order_for(root);
    order.path = key_of({&owner}, "@file" + order.path).substr(5);
    std::string fresh = random_bytes(kSize, 3);
    for (Node* node : {&owner, &other}) {
        write_file(order.path, random_bytes(kSize, 1));
        AgentClient remote(kKey);
        std::optional<Result<Exchange>> got;
        change_while(
            owner, [&] { got.emplace(remote.open_file(node->local, order, kDeadline)); },
            [&] { write_file(order.path, fresh); });
        if (node == &owner) {
            CHECK(got->status().code() == Code::NotCached);
        } else {  // asked again, the owner gives what is there now
            REQUIRE(got->ok());
            CHECK(all_of((*got)->take_descriptor()) == fresh);
        }
        CHECK(other.agent().opener().counters().failures == 0);
    }
}

TEST_CASE("a file that becomes shorter while it is read fails its readers and is not kept") {
    Node node;
    TempDir root;
    auto order = order_for(root, Tier::Disk);
    write_file(order.path, random_bytes(kSize, 1));
    auto got = read_with(node, order, [&] { REQUIRE(::truncate(order.path.c_str(), 1000) == 0); });
    CHECK_FALSE(got.ok());
    CHECK(has_no_copy(node, order));
    AgentClient remote(kKey);
    CHECK(read(remote, node.tcp, order)->size() == 1000);
}

TEST_CASE("rule 12: what was refreshed while it was read is looked at again") {
    Node node;
    TempDir root;
    auto order = order_for(root);
    std::string bytes = random_bytes(kSize, 1);
    write_file(order.path, bytes);
    auto got = read_with(node, order, [&] { node.agent().files().catalog().refresh(root.path()); });
    CHECK(*got == bytes);
    CHECK(
        eventually([&] { return node.store().list(file_prefix(order.path), "", 10).size() == 1; }));
    CHECK(eventually([&] { return node.store().usage(Tier::Memory).reserved == 0; }));
    CHECK_FALSE(node.agent().files().catalog().find(order.path));
}
