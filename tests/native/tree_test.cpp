// Broadcast down a tree, between agents in this process: what the tests with real agents cannot
// show as closely.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <optional>
#include <thread>

#include "files/listing.hpp"
#include "support.hpp"

using namespace holdfast;
using namespace holdfast::test;

namespace {

// Nodes in racks, and a directory that they share.
struct Cluster {
    std::vector<std::unique_ptr<Node>> nodes;
    std::vector<std::string> racks;  // of each of them
    TempDir shared;
    AgentClient remote{kKey};

    explicit Cluster(std::vector<std::string> labels, std::uint64_t memory = 256 << 20)
        : racks(std::move(labels)) {
        for (std::size_t i = 0; i < racks.size(); ++i)
            nodes.push_back(std::make_unique<Node>(memory));
        std::vector<Node*> all;
        for (auto& node : nodes) all.push_back(node.get());
        place(all);
    }
    void place(const std::vector<Node*>& members, std::uint32_t degree = 2) {
        std::map<std::string, std::size_t> order;  // as the ring has them
        for (std::size_t i = 0; i < nodes.size(); ++i)
            if (std::ranges::find(members, nodes[i].get()) != members.end())
                order[nodes[i]->name()] = i;
        std::vector<std::string> names, addresses, labels;
        std::vector<std::uint64_t> numbers;
        for (auto& [name, i] : order) {
            names.push_back(name);
            numbers.push_back(nodes[i]->number);
            addresses.push_back(nodes[i]->tcp);
            labels.push_back(racks[i]);
        }
        for (Node* node : members) {
            node->agent().set_placement(
                Placement::make(Ring(names, 16), numbers, addresses, 1, labels));
            node->agent().tree().set(
                {.degree = degree,
                 .trust = {.strikes = 2, .avoid = 1h, .file_deadline = 5s, .deadline = 5s}});
        }
    }
    std::string file(const std::string& name, std::string_view bytes) {
        write_file(shared / name, bytes);
        return shared / name;
    }
    TreeOrder order(const std::string& path, TreeOrder::Kind kind = TreeOrder::Kind::File) {
        return {.kind = kind, .root = shared.path(), .path = path};
    }
    Result<std::string> ask(Node& node, const TreeOrder& order) {
        return ask_tree(remote, node.local, order);
    }
    template <typename Of>
    std::uint64_t sum(Of of) {
        std::uint64_t total = 0;
        for (auto& node : nodes) total += of(node->agent().tree());
        return total;
    }
};

constexpr auto kListing = TreeOrder::Kind::Listing;

}  // namespace

TEST_CASE("every node gets a copy, the head alone reads, and each rack is entered once") {
    Cluster cluster({"a", "a", "a", "b", "b", "b", "c", "c", "c"});
    std::string bytes = random_bytes(300'000, 1), path = cluster.file("file", bytes);
    std::vector<std::thread> programs;
    std::atomic<int> right = 0;
    for (auto& node : cluster.nodes)
        for (int i = 0; i < 4; ++i)
            programs.emplace_back([&] {
                auto got = cluster.ask(*node, cluster.order(path));
                right += got.ok() && *got == bytes;
            });
    for (auto& program : programs) program.join();
    CHECK(right == 36);
    CHECK(cluster.sum([](Tree& tree) { return tree.head().counters().files.load(); }) == 1);
    CHECK(cluster.sum([](Tree& tree) { return tree.counters().hops.load(); }) == 8);
    CHECK(cluster.sum([](Tree& tree) { return tree.counters().bytes_up.load(); }) ==
          8 * bytes.size());
    // In whose rack is the node above? Each rack but the head's has one whose is not its own.
    auto placement = cluster.nodes[0]->agent().placement().get();
    int crossings = 0;
    for (std::size_t i = 0; i < cluster.nodes.size(); ++i) {
        auto rack_of = [&](std::uint64_t number) {
            for (std::size_t j = 0; j < cluster.nodes.size(); ++j)
                if (cluster.nodes[j]->number == number) return cluster.racks[j];
            return std::string();
        };
        auto self = std::ranges::find(placement->numbers, cluster.nodes[i]->number);
        auto above = placement->trees.ancestors(
            placement->ring, file_prefix(path),
            static_cast<std::uint32_t>(self - placement->numbers.begin()), 2);
        crossings += !above.empty() && rack_of(placement->numbers[above[0]]) != cluster.racks[i];
    }
    CHECK(crossings == 2);
    // Nobody's duty, nobody's stray.
    for (auto& node : cluster.nodes) {
        CHECK(node->store().strays(10, "").empty());
        CHECK(node->store().survey().empty());
        auto kept = node->store().list("@file", "", 10);
        REQUIRE(kept.size() == 1);
        CHECK(kept[0]->copies == 0);
    }
}

TEST_CASE("a spread read makes an ordinary copy of one that was broadcast") {
    Cluster cluster({"", "", ""});
    std::string path = cluster.file("file", random_bytes(5000, 2));
    for (auto& node : cluster.nodes) REQUIRE(cluster.ask(*node, cluster.order(path)).ok());
    auto owners = cluster.nodes[0]->agent().placement().get()->owners(file_prefix(path), 1);
    for (auto& node : cluster.nodes)
        if (owners.contains(node->number)) {
            FileOrder order{.root = cluster.shared.path(), .path = path, .largest = 1 << 20};
            CHECK(*read(cluster.remote, node->tcp, order) == random_bytes(5000, 2));
            CHECK(node->store().list("@file", "", 10).at(0)->copies == 1);
        }
}

TEST_CASE("an invalidated path takes the listing of its directory along") {
    Cluster cluster({"", "", "", ""});
    std::string path = cluster.file("file", "one"), other = cluster.file("other", "two");
    auto listing = cluster.order(cluster.shared.path(), kListing);
    for (auto& node : cluster.nodes) {
        REQUIRE(cluster.ask(*node, cluster.order(path)).ok());
        REQUIRE(cluster.ask(*node, listing).ok());
    }
    REQUIRE(cluster.remote.connections()
                .ask(cluster.nodes[2]->local,
                     {.op = Op::Invalidate, .meta = InvalidateMessage{path, ""}.encode()},
                     kDeadline)
                .ok());
    for (auto& node : cluster.nodes) {
        CHECK(cluster.ask(*node, cluster.order(path)).status().code() == Code::NotCached);
        CHECK(cluster.ask(*node, listing).status().code() == Code::NotCached);
        CHECK(*cluster.ask(*node, cluster.order(other)) == "two");
    }
    write_file(path, "three");
    for (auto& node : cluster.nodes) node->agent().files().refresh({path}, 7);
    for (auto& node : cluster.nodes) {
        CHECK(*cluster.ask(*node, cluster.order(path)) == "three");
        auto listed = Listing::decode(*cluster.ask(*node, listing));
        REQUIRE(listed.ok());
        CHECK(listed->find("file")->attributes.size == 5);
    }
}

TEST_CASE("who heard of a refresh learns nothing from before it") {
    Cluster cluster({"", "", "", ""});
    std::string path = cluster.file("file", "old");
    for (auto& node : cluster.nodes) REQUIRE(*cluster.ask(*node, cluster.order(path)) == "old");
    write_file(path, "newer");
    // Only one was told, and not the head.
    auto head = cluster.nodes[0]->agent().placement().get()->owners(file_prefix(path), 1);
    for (auto& node : cluster.nodes) {
        if (head.contains(node->number)) continue;
        node->agent().files().refresh({path}, 99);
        CHECK(*cluster.ask(*node, cluster.order(path)) == "newer");
        break;
    }
}

TEST_CASE("a copy on the disk that was asked for is passed, though all is then to be looked at") {
    Cluster cluster({""});
    Agent& agent = cluster.nodes[0]->agent();
    agent.tree().set({.tier = Tier::Disk});
    std::string bytes = random_bytes(100'000, 1), path = cluster.file("file", bytes);
    REQUIRE(cluster.ask(*cluster.nodes[0], cluster.order(path)).ok());
    Fd passed = passed_while_distrusted(agent, agent.tree(), cluster.order(path).encode());
    CHECK(all_of(passed) == bytes);
}

TEST_CASE("nodes that believe one another to be the head end at once") {
    Cluster cluster({"", ""});
    Node &a = *cluster.nodes[0], &b = *cluster.nodes[1];
    std::string path = cluster.file("file", "bytes");
    // Each sees only the other.
    for (auto [one, two] : {std::pair(&a, &b), std::pair(&b, &a)})
        one->agent().set_placement(
            Placement::make(Ring({two->name()}, 16), {two->number}, {two->tcp}, 2));
    auto order = cluster.order(path);
    CHECK(cluster.ask(a, order).status().code() == Code::NotCached);
    CHECK(cluster.ask(b, order).status().code() == Code::NotCached);
    // Asked by another agent that takes us for the head, or for the one that stands in for it.
    order.hops = 0;
    auto refused = cluster.remote.connections().ask(a.tcp, {.op = Op::Tree, .meta = order.encode()},
                                                    kDeadline);
    CHECK(refused.status().code() == Code::StaleView);
    order.stands_in = true;
    CHECK(*body_of(cluster.remote.connections().ask(a.tcp, {.op = Op::Tree, .meta = order.encode()},
                                                    kDeadline)) == "bytes");
}

TEST_CASE("a dead head is replaced by the next owner, which reads once for all") {
    Cluster cluster({"", "", "", "", "", ""});
    std::string path = cluster.file("file", random_bytes(100'000, 3));
    auto placement = cluster.nodes[0]->agent().placement().get();
    std::uint64_t head = *placement->owners(file_prefix(path), 1).begin();
    for (auto& node : cluster.nodes)
        if (node->number == head) node->stop();
    std::uint64_t reads = 0, failures = 0;
    for (auto& node : cluster.nodes) {
        if (node->number == head) continue;
        CHECK(*cluster.ask(*node, cluster.order(path)) == random_bytes(100'000, 3));
    }
    for (auto& node : cluster.nodes) {
        if (node->number == head) continue;
        reads += node->agent().tree().head().counters().files;
        failures += node->agent().tree().counters().failures;
    }
    CHECK(reads == 1);
    CHECK(failures >= 1);
}

TEST_CASE("a node that stands in for a head waits for a copy that is just coming to it") {
    Cluster cluster({"", ""});
    Node& node = *cluster.nodes[0];
    std::string bytes = random_bytes(100'000, 6);
    for (bool arrives : {true, false}) {
        std::string path = cluster.file(arrives ? "arrives" : "breaks off", bytes);
        struct stat info{};
        REQUIRE(::stat(path.c_str(), &info) == 0);
        std::string key = file_key(path, Attributes::of(info).identity());
        auto order = cluster.order(path);
        order.hops = 0;
        order.stands_in = true;
        auto opened = Intake::open(node.store(), key, bytes.size(), Tier::Memory, true);
        REQUIRE(opened.ok());
        std::optional<Intake> coming(std::move(*opened));
        auto asked = std::async(std::launch::async, [&] { return cluster.ask(node, order); });
        CHECK(asked.wait_for(100ms) == std::future_status::timeout);
        if (arrives) {
            REQUIRE(coming->append(bytes.data(), bytes.size()).ok());
            REQUIRE(std::move(*coming).finish({}).ok());
        } else {
            coming.reset();
        }
        auto got = asked.get();
        REQUIRE(got.ok());
        CHECK(*got == bytes);
        // What did not arrive was read here instead.
        CHECK(node.agent().tree().head().counters().files == (arrives ? 0 : 1));
    }
}

TEST_CASE("a damaged copy of a node above is not passed on") {
    Cluster cluster({"", "", "", ""});
    std::string bytes = random_bytes(50'000, 4), path = cluster.file("file", bytes);
    auto placement = cluster.nodes[0]->agent().placement().get();
    std::uint64_t head = *placement->owners(file_prefix(path), 1).begin();
    for (auto& node : cluster.nodes) {
        if (node->number != head) continue;
        REQUIRE(*cluster.ask(*node, cluster.order(path)) == bytes);
        auto object = node->store().list("@file", "", 1).at(0);
        Fd file(::open((node->tier(Tier::Memory) + "/" + object->name).c_str(), O_WRONLY));
        if (!file) return;  // only root may
        REQUIRE(::pwrite(file.get(), "!", 1, 1234) == 1);
    }
    for (auto& node : cluster.nodes)
        if (node->number != head) CHECK(*cluster.ask(*node, cluster.order(path)) == bytes);
}

TEST_CASE("a directory of 100,000 entries is listed once for all") {
    Cluster cluster({"", "", ""});
    std::filesystem::create_directory(cluster.shared / "many");
    for (int i = 0; i < 100'000; ++i)
        Fd made(::open((cluster.shared / ("many/" + std::to_string(i))).c_str(),
                       O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    for (auto& node : cluster.nodes) {
        auto listed =
            Listing::decode(*cluster.ask(*node, cluster.order(cluster.shared / "many", kListing)));
        REQUIRE(listed.ok());
        CHECK(listed->entries.size() == 100'000);
        CHECK(listed->find("99999") != nullptr);
        CHECK(listed->find("100000") == nullptr);
    }
    CHECK(cluster.sum([](Tree& tree) { return tree.head().counters().listings.load(); }) == 1);
}

TEST_CASE("a refresh is learnt of as a notice, and by whom was told only once") {
    Cluster cluster({""});
    Files& files = cluster.nodes[0]->agent().files();
    Store& store = cluster.nodes[0]->agent().store();
    std::vector<std::string> learnt;
    files.watch_refreshes([&](const std::string& path) { learnt.push_back(path); });
    std::string path = cluster.file("file", "old");
    auto known = [&] { return files.tree_catalog().find(path).has_value(); };
    REQUIRE(*cluster.ask(*cluster.nodes[0], cluster.order(path)) == "old");
    REQUIRE(known());
    store.learn({{Topic::Refresh, RefreshNotice{"/elsewhere", 5}.encode()}});
    CHECK_FALSE(known());
    CHECK(learnt == std::vector<std::string>{"/elsewhere"});
    REQUIRE(*cluster.ask(*cluster.nodes[0], cluster.order(path)) == "old");
    // Told of it: what it does not concern is still believed, also when it comes once more.
    files.refresh({"/a/b/c", "/a/b", "/a/d/e"}, 6);
    CHECK(known());
    CHECK(store.learn({{Topic::Refresh, RefreshNotice{"/a", 6}.encode()}}) == 0);
    CHECK(learnt.size() == 1);
    CHECK_FALSE(RefreshNotice::decode("12345678"));  // of nothing
    CHECK(store.learn({{Topic::Refresh, "1"}}) == 1);
    CHECK(store.notice_digest().first == 2);  // nor is it kept
}
