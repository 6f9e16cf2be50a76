// Read-through from a shared file system: one read however many ask, kept only if nothing changed.
#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <latch>
#include <thread>

#include "support.hpp"

using namespace holdfast;
using namespace holdfast::test;

namespace {

FillMessage message_for(const std::string& key, const std::string& path, Tier tier) {
    struct stat info{};
    REQUIRE(::stat(path.c_str(), &info) == 0);
    auto ns = [](const timespec& time) {
        return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000u +
               static_cast<std::uint64_t>(time.tv_nsec);
    };
    return {
        key,
        path,
        {info.st_ino, static_cast<std::uint64_t>(info.st_size), ns(info.st_mtim), ns(info.st_ctim)},
        tier};
}

// Counts how often a file is opened.
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

// Many readers of one file at once; gives how many got exactly `bytes` and how many an error.
std::pair<int, int> read_at_once(Node& node, const FillMessage& message, const std::string& bytes,
                                 int readers) {
    std::atomic<int> right{0}, errors{0};
    std::latch start(readers);
    std::vector<std::thread> threads;
    for (int i = 0; i < readers; ++i) {
        threads.emplace_back([&, i] {
            Remote remote(kKey);
            start.arrive_and_wait();
            auto got = fill(remote, i % 2 ? node.tcp : node.local, message);
            if (!got.ok())
                ++errors;
            else if (*got == bytes)
                ++right;
        });
    }
    for (auto& thread : threads) thread.join();
    return {right, errors};
}

}  // namespace

TEST_CASE("fifty readers at once make one read of the source") {
    for (Tier tier : {Tier::Memory, Tier::Disk}) {
        Node node;
        TempDir shared;
        std::string bytes = random_bytes(3'000'000, 1), path = shared / "file";
        write_file(path, bytes);
        auto message = message_for("key", path, tier);
        Opens opens(path);
        auto [right, errors] = read_at_once(node, message, bytes, 50);
        CHECK(right == 50);
        CHECK(errors == 0);
        CHECK(opens.count() == 1);
        CHECK(eventually([&] { return node.store().find("key") != nullptr; }));
        CHECK(node.store().find("key")->tier == tier);
        // From now on it is served from the store.
        Remote remote(kKey);
        CHECK(*fill(remote, node.tcp, message) == bytes);
        CHECK(*get(remote, node.tcp, {"key", 1'000'000, 100}) == bytes.substr(1'000'000, 100));
        auto passed = remote.fill(node.local, message, true, kPatience);
        REQUIRE(passed.ok());
        CHECK(passed->take_descriptor());
        CHECK(opens.count() == 1);
    }
}

TEST_CASE("files of no and of few bytes are cached files all the same") {
    Node node;
    TempDir shared;
    Remote remote(kKey);
    for (std::size_t size : {0u, 1u, 4096u, 100'000u}) {
        std::string key = std::to_string(size), path = shared / key;
        write_file(path, random_bytes(size, 1));
        for (int again = 0; again < 2; ++again) {
            auto got = fill(remote, node.local, message_for(key, path, Tier::Memory));
            REQUIRE(got.ok());
            CHECK(*got == random_bytes(size, 1));
            CHECK(eventually([&] { return node.store().find(key) != nullptr; }));
        }
        CHECK(node.store().find(key)->has_source);
        CHECK_FALSE(node.store().find(key)->in_heap);
    }
}

TEST_CASE("a source that is not the one asked for is refused, and nothing is kept") {
    Node node;
    TempDir shared;
    Remote remote(kKey);
    std::string path = shared / "file";
    write_file(path, "old");
    auto message = message_for("key", path, Tier::Memory);
    write_file(path, "newer");
    CHECK(fill(remote, node.local, message).status().code() == Code::BadInput);
    message.path = shared / "none";
    CHECK(fill(remote, node.local, message).status().code() == Code::NotFound);
    message.path = shared.path();
    CHECK(fill(remote, node.local, message).status().code() == Code::BadInput);
    REQUIRE(::mkfifo((shared / "fifo").c_str(), 0600) == 0);
    message.path = shared / "fifo";  // must not hang either
    CHECK(fill(remote, node.local, message).status().code() == Code::BadInput);
    // A file of holes that claims more than any tier has.
    Fd holes(::open((shared / "holes").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (::ftruncate(holes.get(), off_t{1} << 42) == 0)
        CHECK(fill(remote, node.local, message_for("h", shared / "holes", Tier::Memory))
                  .status()
                  .code() == Code::Full);
    CHECK(node.store().list("", "", 10).empty());
    CHECK(node.store().usage(Tier::Memory).reserved == 0);
}

TEST_CASE("what changed between the first byte and the last is served but not kept") {
    StoreDir place;
    TempDir shared;
    std::string bytes = random_bytes(1'000'000, 1), path = shared / "file";
    enum { Untouched, Rewritten, Shortened };
    for (int what : {Untouched, Rewritten, Shortened}) {
        write_file(path, bytes);
        Pool pool(1, 1);
        Fills fills(*place.store, pool, 0);
        std::latch gate(1);
        pool.run(0, [&] { gate.wait(); });  // the fill opens its source, and reads it later
        auto message = message_for("key" + std::to_string(what), path, Tier::Memory);
        auto growing = fills.join(message, kPatience);
        REQUIRE(growing.ok());
        auto joined = fills.join(message, kPatience);
        CHECK((joined.ok() && *joined == *growing));
        std::string other = random_bytes(bytes.size(), 2);
        if (what == Rewritten) write_file(path, other);
        if (what == Shortened) REQUIRE(::truncate(path.c_str(), 1000) == 0);
        gate.count_down();
        CHECK(eventually([&] { return (*growing)->progress().ended; }));
        auto progress = (*growing)->progress();
        CHECK(progress.failed == (what == Shortened));
        if (what == Untouched) CHECK(progress.crc == crc32c(0, bytes.data(), bytes.size()));
        if (what == Rewritten) CHECK(progress.crc == crc32c(0, other.data(), other.size()));
        pool.stop();
        CHECK((place.store->find(message.key) != nullptr) == (what == Untouched));
        CHECK(place.store->usage(Tier::Memory).reserved == 0);
    }
    CHECK(files_in(place.tier(Tier::Memory)) == 1);
}

TEST_CASE("a source that shrinks meanwhile gives everybody the whole of it or an error") {
    TempDir shared;
    std::string bytes = random_bytes(4'000'000, 1), path = shared / "file";
    for (int round = 0; round < 4; ++round) {
        Node node;
        write_file(path, bytes);
        auto message = message_for("key", path, round % 2 ? Tier::Disk : Tier::Memory);
        std::thread writer([&] {
            std::this_thread::sleep_for(std::chrono::milliseconds(2 * round));
            CHECK(::truncate(path.c_str(), 1000) == 0);
        });
        auto [right, errors] = read_at_once(node, message, bytes, 4);
        writer.join();
        CHECK(right + errors == 4);
        CHECK(eventually([&] { return node.store().usage(message.tier).reserved == 0; }));
        if (node.store().find("key")) CHECK(contents(node.store(), "key") == bytes);
    }
}

TEST_CASE("an agent that stops in the middle of fills leaves nothing") {
    TempDir shared;
    std::string path = shared / "file";
    write_file(path, random_bytes(8'000'000, 1));
    for (int round = 0; round < 3; ++round) {
        auto node = std::make_unique<Node>();
        std::string tier = node->tier(Tier::Memory), local = node->local;
        std::vector<std::thread> readers;
        for (int i = 0; i < 4; ++i) {
            auto message = message_for("key" + std::to_string(i), path, Tier::Memory);
            readers.emplace_back([&, message] {
                Remote remote(kKey);
                auto got = fill(remote, local, message);
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
