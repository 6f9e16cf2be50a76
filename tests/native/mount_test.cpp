// What a mount consists of, without a kernel: names and versions, what is kept, the original behind
// it, and the agent that may be gone.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <set>
#include <thread>

#include "mount/agent_reader.hpp"
#include "mount/cache.hpp"
#include "mount/inodes.hpp"
#include "mount/original.hpp"
#include "support.hpp"

using namespace holdfast;
using namespace holdfast::test;
namespace hm = holdfast::mount;

namespace {

Result<hm::Settings> parse(std::vector<std::string> words) {
    words.insert(words.begin(), "holdfast_mount");
    std::vector<char*> pointers;
    for (auto& word : words) pointers.push_back(word.data());
    return hm::parse_settings(static_cast<int>(pointers.size()), pointers.data());
}

Attributes attributes_of(const std::string& path) {
    struct stat info{};
    REQUIRE(::lstat(path.c_str(), &info) == 0);
    return Attributes::of(info);
}

constexpr Attributes kFile{.mode = S_IFREG | 0644, .inode = 7, .size = 9};
constexpr Attributes kDirectory{.mode = S_IFDIR | 0755, .inode = 8};

}  // namespace

TEST_CASE("what a mount is told, and what it refuses") {
    auto settings =
        parse({"point=/mnt", "broadcast=/sw/env", "spread=/sw/env/data", "ttl_ms=1500"});
    REQUIRE(settings.ok());
    CHECK(settings->ttl == 1500ms);
    CHECK(settings->root_of("/sw/env/lib")->path == "/sw/env");
    CHECK(settings->root_of("/sw/env/data/x")->spread);
    CHECK(settings->root_of("/sw/environment") == nullptr);
    CHECK(settings->shown("/sw/env/lib/x.so") == "/mnt/sw/env/lib/x.so");
    CHECK(settings->shown("/sw/environment") == "/sw/environment");
    CHECK(settings->shown("../x") == "../x");
    for (auto& wrong :
         std::vector<std::vector<std::string>>{{"point=/mnt"},
                                               {"point=/mnt", "broadcast=/"},
                                               {"point=/mnt", "broadcast=/proc/self"},
                                               {"point=/", "broadcast=/sw"},
                                               {"point=/dev/shm/x", "broadcast=/sw"},
                                               {"point=/sw/mnt", "broadcast=/sw"},
                                               {"point=/sw", "broadcast=/sw/env"},
                                               {"point=/mnt", "broadcast=/sw", "colour=blue"},
                                               {"point=/mnt", "broadcast=/sw", "colour"},
                                               {"point=/mnt", "broadcast=/sw", "order="},
                                               {"point=/mnt", "broadcast=/sw", "order=0"},
                                               {"point=/mnt", "broadcast=/sw", "order=zz"}})
        CHECK(parse(wrong).status().code() == Code::BadInput);
}

TEST_CASE("a mount orders files as it is told") {
    std::string hex;
    FileOrder order{.tier = Tier::Disk, .copies = 2, .largest = 5, .settled_ns = 255};
    for (unsigned char byte : order.encode_template()) {
        constexpr char kDigits[] = "0123456789abcdef";
        hex += {kDigits[byte / 16], kDigits[byte % 16]};
    }
    auto settings = parse({"point=/mnt", "broadcast=/sw", "order=" + hex});
    REQUIRE(settings.ok());
    CHECK(settings->order.encode() == order.encode());
}

TEST_CASE("a number stands for one version, and is never used again") {
    auto settings = parse({"point=/mnt", "broadcast=/sw/env"});
    hm::MountInodes inodes(*settings);
    auto top = inodes.current("/sw");
    REQUIRE(top);
    CHECK(inodes.children(*top) == std::vector<std::string>{"env"});
    auto env = inodes.tell(*top, {"/sw/env", kDirectory, {}, false});
    auto old = inodes.tell(*env, {"/sw/env/file", kFile, {}, false});
    CHECK(inodes.tell(*env, {"/sw/env/file", kFile, {}, false}) == old);
    // Of another version the kernel learns as of another file; the old one stays to be had.
    Attributes changed = kFile;
    changed.mtime_ns = 1;
    auto now = inodes.tell(*env, {"/sw/env/file", changed, {}, false});
    CHECK(now->number != old->number);
    CHECK(inodes.current("/sw/env/file") == now);
    CHECK(inodes.find(old->number) == old);
    // A directory stays what it is whatever happens in it.
    Attributes fuller = kDirectory;
    fuller.mtime_ns = 1;
    CHECK(inodes.tell(*top, {"/sw/env", fuller, {}, false}) == env);
    CHECK(env->attributes() == fuller);
    auto below = inodes.below("/sw/env");
    REQUIRE(below.size() == 2);
    CHECK(below[0] == now);  // further down first
    // Each is forgotten when the kernel has said so as often as it was told.
    inodes.forget(old->number, 1);
    CHECK(inodes.find(old->number) == old);
    inodes.forget(old->number, 1);
    CHECK(inodes.find(old->number) == nullptr);
    CHECK(inodes.current("/sw/env/file") == now);
    inodes.forget(now->number, 5);
    CHECK(inodes.current("/sw/env/file") == nullptr);
    auto again = inodes.tell(*env, {"/sw/env/file", kFile, {}, false});
    CHECK(again->number > now->number);
    inodes.forget(top->number, 100);  // what only the mount has stays
    CHECK(inodes.find(top->number) == top);
}

TEST_CASE("numbers of files on different file systems are different, and on one the same") {
    const std::string here = "/usr/bin", also_here = "/usr/lib";  // on one file system
    const std::string there = "/elsewhere/root";  // who is not there shares with nobody
    auto settings =
        parse({"point=/mnt", "broadcast=" + here, "spread=" + there, "broadcast=" + also_here});
    REQUIRE(settings.ok());
    hm::MountInodes inodes(*settings);
    auto tell = [&](const hm::MountInode& above, const std::string& path, bool begins = false) {
        return inodes.tell(above, {path, kDirectory, {}, false, begins});
    };
    auto top = inodes.current("");
    auto first = tell(*top, here), second = tell(*top, there);
    CHECK(first->shown_inode() == kDirectory.inode);
    CHECK(tell(*top, also_here)->shown_inode() == kDirectory.inode);
    CHECK(tell(*first, here + "/a")->shown_inode() == kDirectory.inode);
    CHECK(second->shown_inode() != kDirectory.inode);
    CHECK(tell(*second, there + "/a")->shown_inode() == second->shown_inode());
    auto below = tell(*second, there + "/b", true);
    auto further = tell(*below, there + "/b/c", true);
    CHECK(tell(*below, there + "/b/d")->shown_inode() == below->shown_inode());
    std::set<std::uint64_t> all;
    for (auto& inode : {top, first, second, below, further}) all.insert(inode->shown_inode());
    CHECK(all.size() == 5);
    // One that was mounted over a directory with the same number is another.
    CHECK(tell(*second, there + "/b") != below);
    auto again = parse({"point=/mnt", "broadcast=" + here, "spread=" + there});
    CHECK(again->roots[1].space == settings->roots[1].space);
}

TEST_CASE("inodes from many threads") {
    auto settings = parse({"point=/mnt", "broadcast=/sw"});
    hm::MountInodes inodes(*settings);
    auto top = inodes.find(1);
    std::vector<std::thread> threads;
    for (std::uint64_t seed = 0; seed < 4; ++seed)
        threads.emplace_back([&, seed] {
            for (std::uint64_t i = 0; i < 2000; ++i) {
                Attributes seen = kFile;
                seen.mtime_ns = (i + seed) % 3;
                auto inode = inodes.tell(*top, {"/sw/" + std::to_string(i % 5), seen, {}, false});
                inodes.find(inode->number);
                inodes.below("/sw");
                inodes.forget(inode->number, 1);
            }
        });
    for (auto& thread : threads) thread.join();
    CHECK(inodes.below("/sw").empty());
    CHECK(inodes.size() == 1);
}

TEST_CASE("one fetches for all, and the least used go") {
    hm::Cache<int, int> cache(10, 1h);
    std::atomic<int> fetches = 0;
    auto fetch = [&](int key, std::uint64_t weight) {
        return *cache.get(key, [&](std::uint64_t& weighs) {
            ++fetches;
            weighs = weight;
            std::this_thread::sleep_for(5ms);
            return std::make_shared<const int>(key);
        });
    };
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i) threads.emplace_back([&] { CHECK(fetch(1, 4) == 1); });
    for (auto& thread : threads) thread.join();
    CHECK(fetches == 1);
    fetch(2, 4);
    fetch(1, 4);  // used again
    fetch(3, 4);  // 2 has to go
    CHECK(fetches == 3);
    fetch(1, 4);
    CHECK(fetches == 3);
    fetch(2, 4);
    CHECK(fetches == 4);
    fetch(5, 100);  // more than there is room for is kept as long as it is the newest
    fetch(5, 100);
    CHECK(fetches == 5);
    cache.sweep(Clock::now() + 2h);
    fetch(5, 100);
    CHECK(fetches == 6);
}

TEST_CASE("what was fetched while it was dropped, or failed, is not kept") {
    hm::Cache<int, int> cache(10, 1h);
    auto value = cache.get(1, [&](std::uint64_t&) {
        cache.drop(1);
        return std::make_shared<const int>(1);
    });
    CHECK(*value == 1);
    value = cache.get(1, [](std::uint64_t&) { return std::make_shared<const int>(2); });
    CHECK(*value == 2);
    CHECK(cache.get(2, [](std::uint64_t&) { return std::shared_ptr<const int>(); }) == nullptr);
    CHECK(*cache.get(2, [](std::uint64_t&) { return std::make_shared<const int>(3); }) == 3);
}

TEST_CASE("the original is opened as the version that is wanted, or not at all") {
    TempDir dir;
    hm::Guard guard;
    std::string path = dir / "file";
    write_file(path, "content");
    Attributes seen = attributes_of(path);
    auto opened = hm::open_version(path, seen.identity(), guard);
    REQUIRE(opened.error == 0);
    CHECK(hm::is_version(opened.value.get(), seen.identity()));
    REQUIRE(::unlink(path.c_str()) == 0);  // it has its bytes still
    CHECK(hm::is_version(opened.value.get(), seen.identity()));
    CHECK(hm::open_version(path, seen.identity(), guard).error == ESTALE);
    write_file(path, "other");
    CHECK(hm::open_version(path, seen.identity(), guard).error == ESTALE);
    seen = attributes_of(path);
    opened = hm::open_version(path, seen.identity(), guard);
    std::ofstream(path) << "longer than it was";
    CHECK_FALSE(hm::is_version(opened.value.get(), seen.identity()));
    // FileOpener one of these could wait for ever, or have effects.
    REQUIRE(::mkfifo((dir / "fifo").c_str(), 0600) == 0);
    auto fifo = attributes_of(dir / "fifo").identity();
    CHECK(hm::open_version(dir / "fifo", fifo, guard).error == ESTALE);
    REQUIRE(::symlink("file", (dir / "link").c_str()) == 0);
    CHECK(hm::link_of_original(dir / "link").value == "file");
    CHECK(hm::look_at_original(dir / "missing", guard).error == ENOENT);
    auto inode = attributes_of(dir.path()).inode;
    CHECK(hm::list_original(dir.path(), inode, guard).value.entries.size() == 3);
    CHECK(hm::list_original(dir.path(), inode + 1, guard).error == ESTALE);
    CHECK(guard.endangered().empty());
}

TEST_CASE("paths of any length") {
    TempDir dir;
    hm::Guard guard;
    std::string path = dir.path();
    Fd here(::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    for (int i = 0; i < 30; ++i) {
        std::string name(200, static_cast<char>('a' + i % 26));
        REQUIRE(::mkdirat(here.get(), name.c_str(), 0700) == 0);
        here = Fd(::openat(here.get(), name.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
        path += "/" + name;
    }
    Fd(::openat(here.get(), "file", O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    CHECK(hm::look_at_original(path + "/file", guard).error == 0);
    CHECK(hm::look_at_original(path + "/none", guard).error == ENOENT);
}

TEST_CASE("an agent gives its copies, and one that is gone or silent is left alone") {
    Node node;
    agree({&node});
    TempDir dir;
    std::string bytes = random_bytes(100'000, 7), path = dir / "file";
    write_file(path, bytes);
    hm::Settings settings;
    settings.agent = node.local;
    settings.deadline = kDeadline;
    hm::Root root{dir.path(), dir.path()};
    hm::AgentReader agent(settings);
    auto passed = agent.file(root, path);
    REQUIRE(passed);
    CHECK(passed->attributes.identity() == attributes_of(path).identity());
    CHECK(read_file("/proc/self/fd/" + std::to_string(passed->fd.get())) == bytes);
    CHECK(agent.listing(root, dir.path()));
    CHECK_FALSE(agent.file(root, dir / "missing"));  // it said no, and is asked again
    CHECK(agent.file(root, path));
    node.stop();
    CHECK_FALSE(agent.file(root, path));

    // One that takes connections and says nothing.
    std::string at = dir / "silent";
    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    at.copy(address.sun_path, sizeof address.sun_path - 1);
    Fd silent(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    REQUIRE(::bind(silent.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    REQUIRE(::listen(silent.get(), 16) == 0);
    hm::Settings short_of;
    short_of.agent = "unix:" + at;
    short_of.deadline = 10ms;
    hm::AgentReader other(short_of);
    auto connections = [&] {
        int count = 0;
        for (; Fd(::accept4(silent.get(), nullptr, nullptr, SOCK_CLOEXEC)); ++count) {
        }
        return count;
    };
    CHECK_FALSE(other.file(root, path));
    CHECK(connections() > 0);
    for (int i = 0; i < 100; ++i) CHECK_FALSE(other.file(root, path));
    CHECK(connections() < 50);
}
