// Rule 12: files of the shared file system, read once, served to all, never wrong.
#include "files/files.hpp"

#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <latch>
#include <mutex>
#include <thread>

#include "agent/lanes.hpp"
#include "support.hpp"

using namespace holdfast;
using namespace holdfast::test;

namespace {

constexpr std::uint64_t kHour = 3'600'000'000'000;

FileOrder order_for(const TempDir& root, const std::string& name, Tier tier = Tier::Memory) {
    return {root.path(), root / name, tier, 1, false, 1 << 30, 0};
}

FileOrder validated(FileOrder order) {
    order.validate = true;
    return order;
}

// Counts how often a file is opened. Opens that nobody asked for in between may count as one.
class Opens {
  public:
    explicit Opens(const std::string& path) : fd_(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) {
        REQUIRE(::inotify_add_watch(fd_.get(), path.c_str(), IN_OPEN) >= 0);
    }
    int count() {
        alignas(inotify_event) char events[4096];
        for (;;) {
            auto got = ::read(fd_.get(), events, sizeof events);
            if (got <= 0) return count_;
            for (char* at = events; at < events + got;
                 at += sizeof(inotify_event) + reinterpret_cast<inotify_event*>(at)->len)
                ++count_;
        }
    }

  private:
    Fd fd_;
    int count_ = 0;
};

// Many readers of one file at once; gives how many got exactly `bytes` and how many an error, which
// is shown.
std::pair<int, int> read_at_once(Node& node, const FileOrder& order, const std::string& bytes,
                                 int readers) {
    int right = 0, errors = 0;
    std::mutex mutex;
    std::latch start(readers);
    std::vector<std::thread> threads;
    for (int i = 0; i < readers; ++i) {
        threads.emplace_back([&, i] {
            AgentClient remote(kKey);
            start.arrive_and_wait();
            const std::string& address = i % 2 ? node.tcp : node.local;
            auto got = read(remote, address, order);
            std::lock_guard lock(mutex);
            if (got.ok()) {
                right += *got == bytes;
                return;
            }
            ++errors;
            MESSAGE(address << ": " << got.status().message());
        });
    }
    for (auto& thread : threads) thread.join();
    return {right, errors};
}

std::vector<ObjectPtr> copies_of(Node& node, const std::string& path) {
    return node.store().list(file_prefix(path), "", 10);
}

// Reads it and waits until it is kept.
void cache(Node& node, const FileOrder& order) {
    AgentClient remote(kKey);
    REQUIRE(read(remote, node.tcp, order).ok());
    REQUIRE(eventually([&] { return node.agent().files().cached(order).has_value(); }));
}

void set_age(const std::string& path, std::int64_t seconds) {
    timespec now{};
    REQUIRE(::clock_gettime(CLOCK_REALTIME, &now) == 0);
    timespec times[2] = {now, now};
    times[1].tv_sec -= seconds;
    REQUIRE(::utimensat(AT_FDCWD, path.c_str(), times, 0) == 0);
}

std::string tier_file(Node& node, const std::string& path) {
    auto copies = copies_of(node, path);
    REQUIRE(copies.size() == 1);
    return node.tier(copies[0]->tier) + "/" + copies[0]->name;
}

}  // namespace

TEST_CASE("fifty readers at once open a file once, and those after them not at all") {
    for (Tier tier : {Tier::Memory, Tier::Disk}) {
        Node node;
        TempDir root;
        std::string bytes = random_bytes(3'000'000, 1);
        write_file(root / "file", bytes);
        auto order = order_for(root, "file", tier);
        order.copies = 3;
        Opens opens(root / "file");
        auto [right, errors] = read_at_once(node, order, bytes, 50);
        CHECK(right == 50);
        CHECK(errors == 0);
        CHECK(opens.count() == 1);
        CHECK(node.agent().files().fill_counters().started == 1);
        cache(node, order);
        auto copies = copies_of(node, order.path);
        REQUIRE(copies.size() == 1);
        CHECK(copies[0]->tier == tier);
        CHECK(copies[0]->copies == 3);
        CHECK(copies[0]->has_source);
        // To look again is not to open; and without a look even a file that is gone is served.
        AgentClient remote(kKey);
        CHECK(*read(remote, node.tcp, validated(order)) == bytes);
        CHECK(opens.count() == 1);
        std::filesystem::remove(root / "file");
        CHECK(*read(remote, node.local, order) == bytes);
        CHECK(read(remote, node.tcp, validated(order)).status().code() == Code::NotCached);
        CHECK(node.agent().files().counters().hits >= 2);
    }
}

TEST_CASE("files of no and of few bytes, and with strange names, are files like others") {
    Node node;
    TempDir root;
    AgentClient remote(kKey);
    std::size_t size = 0;
    for (std::string name : {"empty", "a\nb", "\xff\xfe", "..b", " "}) {
        std::string bytes = random_bytes(size, 1);
        write_file(root / name, bytes);
        auto order = order_for(root, name);
        for (int again = 0; again < 2; ++again) {
            auto got = read(remote, node.local, order);
            REQUIRE(got.ok());
            CHECK(*got == bytes);
            CHECK(eventually([&] { return node.agent().files().cached(order).has_value(); }));
        }
        CHECK_FALSE(copies_of(node, order.path)[0]->in_heap);
        size = size * 20 + 1;
    }
}

TEST_CASE("rule 4: who does not own a file reads it only for an owner that failed") {
    Node owner, other;
    agree({&owner, &other});
    TempDir root;
    std::string bytes = random_bytes(1000, 1);
    auto order = order_for(root, "file");
    order.path = key_of({&owner}, "@file" + order.path).substr(5);
    write_file(order.path, bytes);
    AgentClient remote(kKey);
    CHECK(read(remote, other.tcp, order).status().code() == Code::StaleView);
    CHECK(other.agent().files().fill_counters().started == 0);
    CHECK(*read(remote, owner.tcp, order) == bytes);
    order.stands_in = true;
    CHECK(*read(remote, other.tcp, order) == bytes);
}

TEST_CASE("rule 12: a change is seen by who validates or after a refresh, and not before") {
    Node node;
    TempDir root;
    AgentClient remote(kKey);
    auto order = order_for(root, "file");
    write_file(order.path, "old");
    cache(node, order);
    std::string bytes = "old";
    for (int round = 0; round < 4; ++round) {
        std::string changed = "changed " + std::string(static_cast<std::size_t>(round), '!');
        if (round % 2) {  // replaced by another file
            write_file(root / "other", changed);
            std::filesystem::rename(root / "other", order.path);
        } else {
            write_file(order.path, changed);
        }
        CHECK(*read(remote, node.tcp, order) == bytes);
        bytes = changed;
        if (round < 2) {
            CHECK(*read(remote, node.tcp, validated(order)) == bytes);
        } else {
            CHECK(node.agent().files().catalog().refresh(root.path()) == 1);
        }
        CHECK(*read(remote, node.tcp, order) == bytes);
        cache(node, order);
        // The version before is gone for good, wherever else it may lie.
        CHECK(copies_of(node, order.path).size() == 1);
        CHECK(node.store().notice_digest().first == static_cast<std::uint64_t>(round + 1));
        CHECK(node.agent().files().counters().changed == static_cast<std::uint64_t>(round + 1));
    }
}

TEST_CASE("rule 12: a refresh of what did not change costs no read") {
    Node node;
    TempDir root;
    AgentClient remote(kKey);
    auto order = order_for(root, "file");
    write_file(order.path, "bytes");
    cache(node, order);
    Opens opens(order.path);
    node.agent().files().catalog().refresh(order.path);
    CHECK(*read(remote, node.tcp, order) == "bytes");
    node.agent().files().catalog().distrust();
    CHECK(*read(remote, node.tcp, order) == "bytes");
    CHECK(opens.count() == 0);
    CHECK(node.store().notice_digest().first == 0);
}

TEST_CASE("rule 12: a node that returns looks before it serves") {
    Node node;
    TempDir root;
    AgentClient remote(kKey);
    auto order = order_for(root, "file");
    write_file(order.path, "old");
    cache(node, order);
    write_file(order.path, "newer");
    node.agent().files().catalog().distrust();
    CHECK(*read(remote, node.tcp, order) == "newer");
}

TEST_CASE("rule 12: a file is kept once its last change is old enough") {
    Node node;
    TempDir root;
    AgentClient remote(kKey);
    auto order = order_for(root, "file");
    order.settled_ns = kHour;
    write_file(order.path, "bytes");
    Opens opens(order.path);
    int opened = 0;
    for (std::int64_t age : {0, 3000, -7200}) {  // the last one lies in the future
        set_age(order.path, age);
        CHECK(*read(remote, node.tcp, order) == "bytes");
        CHECK(remote.attributes(node.tcp, order, kDeadline).ok());
        CHECK(eventually([&] { return node.store().usage(Tier::Memory).reserved == 0; }));
        CHECK(copies_of(node, order.path).empty());
        CHECK_FALSE(node.agent().files().catalog().find(order.path));
        CHECK(opens.count() == ++opened);
    }
    set_age(order.path, 4000);
    cache(node, order);
    CHECK(*read(remote, node.tcp, order) == "bytes");
    CHECK(opens.count() == 4);
}

TEST_CASE("what is no plain file below the root is left to its reader, and nothing is kept") {
    Node node;
    TempDir root, outside;
    AgentClient remote(kKey);
    write_file(root / "file", "bytes");
    write_file(outside / "file", "bytes");
    std::filesystem::create_directory(root / "directory");
    REQUIRE(::mkfifo((root / "fifo").c_str(), 0600) == 0);
    auto link = [&](const std::string& target, const std::string& name) {
        REQUIRE(::symlink(target.c_str(), (root / name).c_str()) == 0);
    };
    link("loop", "loop");
    link(outside / "file", "absolute");
    link("../" + std::filesystem::path(outside.path()).filename().string() + "/file", "relative");
    auto before = open_descriptors();
    std::uint64_t refused = 0;
    for (std::string name :
         {std::string("none"), std::string("directory"), std::string("fifo"), std::string("loop"),
          std::string("absolute"), std::string("relative"), std::string("file/below"),
          std::string("directory/../file"), std::string("./file"), std::string("file/"),
          std::string(300, 'a'), std::string(kMaxKey, 'a')}) {
        CAPTURE(name);
        CHECK(read(remote, node.tcp, order_for(root, name)).status().code() == Code::NotCached);
        CHECK(remote.attributes(node.tcp, order_for(root, name), kDeadline).status().code() ==
              Code::NotCached);
        CHECK(node.agent().files().counters().not_cached == (refused += 2));
    }
    FileOrder elsewhere{root.path(), outside / "file"};
    CHECK(read(remote, node.tcp, elsewhere).status().code() == Code::NotCached);
    CHECK(read(remote, node.tcp, {root / "none", root / "none/file"}).status().code() ==
          Code::NotCached);
    auto large = order_for(root, "file");
    large.largest = 4;
    CHECK(read(remote, node.tcp, large).status().code() == Code::NotCached);
    // A file of holes that claims more than any tier has.
    Fd holes(::open((root / "holes").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (::ftruncate(holes.get(), off_t{1} << 42) == 0) {
        auto order = order_for(root, "holes");
        order.largest = ~std::uint64_t{0};
        CHECK(read(remote, node.tcp, order).status().code() == Code::NotCached);
    }
    CHECK(node.store().list("", "", 10).empty());
    CHECK(node.store().usage(Tier::Memory).reserved == 0);
    CHECK(open_descriptors() <= before + 4);  // the connection's, and `holes`
    CHECK(node.agent().files().fill_counters().started == 0);
}

TEST_CASE("a version that was dropped is never cached again") {
    Node node;
    TempDir root;
    AgentClient remote(kKey);
    auto order = order_for(root, "file");
    write_file(order.path, "bytes");
    cache(node, order);
    node.store().drop(copies_of(node, order.path)[0]->key);
    CHECK(read(remote, node.tcp, order).status().code() == Code::NotCached);
    write_file(order.path, "other bytes");
    CHECK(*read(remote, node.tcp, order) == "other bytes");
}

TEST_CASE("rule 11: a copy that went bad is found by its reader and not served again") {
    for (Tier tier : {Tier::Memory, Tier::Disk}) {
        Node node;
        TempDir root;
        AgentClient remote(kKey);
        auto order = order_for(root, "file", tier);
        std::string bytes = random_bytes(300'000, 1);
        write_file(order.path, bytes);
        cache(node, order);
        std::string copy = tier_file(node, order.path);
        REQUIRE(::chmod(copy.c_str(), 0600) == 0);
        Fd file(::open(copy.c_str(), O_RDWR | O_CLOEXEC));
        REQUIRE(::pwrite(file.get(), "?!?!", 4, 250'000) == 4);
        auto exchange = remote.read(node.tcp, order, kDeadline);
        REQUIRE(exchange.ok());
        std::string meta = exchange->meta();
        CHECK(body_of(std::move(exchange)).status().code() == Code::Damaged);
        verify_copy(remote.connections(), node.tcp, order, meta, kDeadline);
        CHECK(node.store().counters().damaged == 1);
        CHECK(copies_of(node, order.path).empty());
        cache(node, order);
        CHECK(*read(remote, node.tcp, order) == bytes);
        // One that was cut short, or is gone, is not even begun.
        REQUIRE(::chmod(tier_file(node, order.path).c_str(), 0600) == 0);
        REQUIRE(::truncate(tier_file(node, order.path).c_str(), 1000) == 0);
        CHECK(*read(remote, node.tcp, order) == bytes);
        cache(node, order);
        REQUIRE(::unlink(tier_file(node, order.path).c_str()) == 0);
        CHECK(*read(remote, node.tcp, order) == bytes);
        CHECK(node.store().counters().damaged == 3);
    }
}

TEST_CASE("attributes are the original's, without opening it") {
    Node node;
    TempDir root;
    AgentClient remote(kKey);
    auto order = order_for(root, "file");
    write_file(order.path, random_bytes(10'000, 1));
    REQUIRE(::chmod(order.path.c_str(), 0640) == 0);
    struct stat info{};
    REQUIRE(::stat(order.path.c_str(), &info) == 0);
    std::string expected = Attributes::of(info).encode();
    Opens opens(order.path);
    CHECK(remote.attributes(node.tcp, order, kDeadline)->encode() == expected);
    auto exchange = remote.read(node.tcp, order, kDeadline);
    REQUIRE(exchange.ok());
    CHECK(exchange->meta() == expected);
    CHECK(opens.count() == 1);
    CHECK(body_of(std::move(exchange)).ok());
    CHECK(eventually([&] { return node.agent().files().cached(order).has_value(); }));
    std::filesystem::remove(order.path);
    auto known = remote.attributes(node.tcp, order, kDeadline);
    REQUIRE(known.ok());
    CHECK(known->identity() == Attributes::of(info).identity());
    CHECK(remote.attributes(node.tcp, validated(order), kDeadline).status().code() ==
          Code::NotCached);
    order.largest = 100;
    CHECK(remote.attributes(node.tcp, order, kDeadline).status().code() == Code::NotCached);
}

TEST_CASE("a dataset larger than the cache works, and what is pinned or has no source stays") {
    Node node(1 << 20, 1 << 20);
    TempDir root;
    AgentClient remote(kKey);
    REQUIRE(put(remote, {&node}, "object", random_bytes(100'000, 9)).ok());
    for (int epoch = 0; epoch < 2; ++epoch) {
        for (std::size_t i = 0; i < 30; ++i) {
            std::string bytes = random_bytes(100'000, i), name = std::to_string(i);
            if (epoch == 0) write_file(root / name, bytes);
            auto got = read(remote, node.tcp, order_for(root, name));
            REQUIRE(got.ok());
            CHECK(*got == bytes);
        }
    }
    CHECK(*get(remote, node.tcp, {"object"}) == random_bytes(100'000, 9));
    CHECK(node.store().counters().evicted > 10);
    CHECK(node.store().usage(Tier::Memory).occupied <= 1 << 20);
    // Where nothing can be evicted, readers go to the shared file system.
    REQUIRE(put(remote, {&node}, "most", random_bytes(900'000, 9)).ok());
    Store::NewObject rest{.key = "rest", .size = 1 << 20, .tier = Tier::Disk};
    auto disk = node.store().create(rest);
    REQUIRE(disk.ok());
    CHECK(read(remote, node.tcp, order_for(root, "0")).status().code() == Code::NotCached);
}

TEST_CASE("a file that shrinks meanwhile gives everybody the whole of it or an error") {
    TempDir root;
    std::string bytes = random_bytes(4'000'000, 1);
    for (int round = 0; round < 4; ++round) {
        Node node;
        auto order = order_for(root, "file", round % 2 ? Tier::Disk : Tier::Memory);
        write_file(order.path, bytes);
        std::thread writer([&] {
            std::this_thread::sleep_for(std::chrono::milliseconds(2 * round));
            CHECK(::truncate(order.path.c_str(), 1000) == 0);
        });
        std::atomic<int> wrong{0};
        std::vector<std::thread> readers;
        for (int i = 0; i < 4; ++i) {
            readers.emplace_back([&] {
                AgentClient remote(kKey);
                auto got = read(remote, node.tcp, order);
                if (got.ok() && *got != bytes && *got != bytes.substr(0, 1000)) ++wrong;
            });
        }
        for (auto& reader : readers) reader.join();
        writer.join();
        CHECK(wrong == 0);
        CHECK(eventually([&] { return node.store().usage(order.tier).reserved == 0; }));
        for (auto& copy : copies_of(node, order.path)) {
            std::string kept = contents(node.store(), copy->key);
            CHECK((kept == bytes || kept == bytes.substr(0, 1000)));
        }
    }
}

TEST_CASE("an agent that stops in the middle of fills leaves nothing") {
    TempDir root;
    for (int i = 0; i < 4; ++i) write_file(root / std::to_string(i), random_bytes(8'000'000, 1));
    for (int round = 0; round < 3; ++round) {
        auto node = std::make_unique<Node>();
        std::string tier = node->tier(Tier::Memory), local = node->local;
        std::vector<std::thread> readers;
        for (int i = 0; i < 4; ++i) {
            readers.emplace_back([&, i] {
                AgentClient remote(kKey);
                auto got = read(remote, local, order_for(root, std::to_string(i)));
                CHECK((got.ok() ? got->size() == 8'000'000
                                : got.status().code() == Code::Unavailable));
            });
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(3 * round));
        node.reset();
        CHECK_FALSE(std::filesystem::exists(tier));
        for (auto& reader : readers) reader.join();
    }
}
