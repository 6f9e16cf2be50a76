// Files of the shared file system that change while they are read.
#include <unistd.h>

#include <latch>
#include <thread>

#include "files/files.hpp"
#include "store/lanes.hpp"
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

// Does `change` after the file was opened and before it is read; gives what the reader got.
Result<std::string> read_with(Node& node, const FileOrder& order,
                              const std::function<void()>& change) {
    std::optional<Result<std::string>> got;
    std::optional<FillsHeld> held(node);
    auto before = node.agent().files().fill_counters().started.load();
    std::thread reader([&] {
        Remote remote(kKey);
        got = read(remote, node.tcp, order);
    });
    CHECK(eventually([&] { return node.agent().files().fill_counters().started > before; }));
    change();
    held.reset();
    reader.join();
    return std::move(*got);
}

}  // namespace

TEST_CASE("rule 12: a file that changes while it is read is served and not kept") {
    Node node;
    TempDir root;
    auto order = order_for(root);
    std::string fresh = random_bytes(kSize, 2);
    write_file(order.path, random_bytes(kSize, 1));
    auto got = read_with(node, order, [&] { write_file(order.path, fresh); });
    REQUIRE(got.ok());
    CHECK(*got == fresh);  // what the shared file system gave
    CHECK(has_no_copy(node, order));
    CHECK_FALSE(node.agent().files().catalog().find(order.path));
}

TEST_CASE(
    "who wants one version gets no file that changes while it is read, and then the new one") {
    for (std::uint64_t settled_ns : {std::uint64_t{0}, ~std::uint64_t{0} >> 1}) {  // kept, or not
        Node node;
        TempDir root;
        auto order = order_for(root);
        order.one_version = true;
        order.settled_ns = settled_ns;
        std::string fresh = random_bytes(kSize, 2);
        write_file(order.path, random_bytes(kSize, 1));
        auto got = read_with(node, order, [&] { write_file(order.path, fresh); });
        CHECK_FALSE(got.ok());
        CHECK(has_no_copy(node, order));
        Remote remote(kKey);
        CHECK(*read(remote, node.tcp, order) == fresh);
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
    Remote remote(kKey);
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
