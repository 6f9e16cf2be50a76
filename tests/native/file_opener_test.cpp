// Files by descriptor: of this node's copy, or of a file that was fetched from another node.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <set>
#include <thread>

#include "files/attribute_table.hpp"
#include "proxy.hpp"
#include "support.hpp"

using namespace holdfast;
using namespace holdfast::test;

namespace {

struct Opened {
    Attributes attributes;
    Fd fd;
};

// Three nodes and a directory that they share; the first is the one whose programs open files.
struct Cluster {
    Node a, b, c;
    TempDir shared;
    AgentClient remote{kKey};

    Cluster() {
        agree({&a, &b, &c});
        a.agent().opener().set({.strikes = 2, .avoid = 1h, .file_deadline = 5s, .deadline = 5s});
    }

    // A file with random bytes that belongs to these, in this order.
    std::string file_of(const std::vector<Node*>& owners, std::size_t size, std::uint64_t seed) {
        std::string path =
            key_of(owners, "@file" + (shared / "file" + std::to_string(seed))).substr(5);
        write_file(path, random_bytes(size, seed));
        return path;
    }
    FileOrder order(const std::string& path) const {
        return {.root = shared.path(), .path = path, .largest = 1 << 30};
    }
    Result<Opened> open(FileOrder order, OnFailure on_failure = OnFailure::Recache,
                        Duration deadline = kDeadline) {
        order.on_failure = on_failure;
        auto exchange = remote.open_file(a.local, order, deadline);
        if (!exchange.ok()) return exchange.take_status();
        auto attributes = Attributes::decode(exchange->meta());
        if (!attributes.ok()) return attributes.take_status();
        return Opened{*attributes, exchange->take_descriptor()};
    }
    Result<Opened> open(const std::string& path, OnFailure on_failure = OnFailure::Recache) {
        return open(order(path), on_failure);
    }
    // Where a finds the others from now on.
    void found_at(const std::string& b_address, const std::string& c_address) {
        std::map<std::string, std::pair<std::uint64_t, std::string>> members{
            {a.name(), {a.number, a.tcp}},
            {b.name(), {b.number, b_address}},
            {c.name(), {c.number, c_address}}};
        std::vector<std::string> names, addresses;
        std::vector<std::uint64_t> numbers;
        for (auto& [name, member] : members) {
            names.push_back(name);
            numbers.push_back(member.first);
            addresses.push_back(member.second);
        }
        a.agent().set_placement(Placement::make(Ring(names, 64), numbers, addresses, 1));
    }
    const OpenCounters& counters() { return a.agent().opener().counters(); }
    std::vector<std::uint64_t> doubted() {
        std::vector<std::uint64_t> members;
        while (auto event = a.agent().events().next())
            if (auto* doubt = std::get_if<event::Doubted>(&*event))
                members.push_back(doubt->member);
        return members;
    }
};

struct stat about(const Fd& fd) {
    struct stat info{};
    REQUIRE(::fstat(fd.get(), &info) == 0);
    return info;
}

ino_t inode(const Fd& fd) {
    return about(fd).st_ino;
}

// Takes connections and never says a word.
struct Silent {
    Silent()
        : fd(std::move(*listen_on(*Address::parse("tcp:127.0.0.1:0")))),
          tcp(Address::of(fd)->text) {}
    Fd fd;
    std::string tcp;
};

std::string gone() {
    return Node().tcp;
}

}  // namespace

TEST_CASE("a file of this node is passed as the tier's own file, without a copy") {
    for (Tier tier : {Tier::Memory, Tier::Disk}) {
        Cluster cluster;
        std::string path = cluster.file_of({&cluster.a}, 300'000, 1);
        FileOrder order = cluster.order(path);
        order.tier = tier;
        auto first = cluster.open(order);  // filled, and passed when it is whole
        REQUIRE(first.ok());
        CHECK(all_of(first->fd) == random_bytes(300'000, 1));
        auto second = cluster.open(order);
        REQUIRE(second.ok());
        auto object = cluster.a.store().find(file_key(path, second->attributes.identity()));
        REQUIRE(object);
        struct stat stored{};
        REQUIRE(::stat((cluster.a.tier(tier) + "/" + object->name).c_str(), &stored) == 0);
        CHECK(inode(second->fd) == stored.st_ino);
        CHECK(inode(first->fd) == stored.st_ino);
        CHECK(all_of(second->fd) == random_bytes(300'000, 1));
        CHECK((stored.st_mode & 07777) == 0400);
        CHECK(cluster.counters().local == 2);
        CHECK(cluster.counters().fetched == 0);
        CHECK(cluster.a.agent().files().fill_counters().started == 1);
    }
}

TEST_CASE("a copy on the disk that was asked for is passed, though all is then to be looked at") {
    Cluster cluster;
    Agent& agent = cluster.a.agent();
    std::string path = cluster.file_of({&cluster.a}, 300'000, 1);
    FileOrder order = cluster.order(path);
    order.tier = Tier::Disk;
    REQUIRE(cluster.open(order).ok());
    Fd passed = passed_while_distrusted(agent, agent.opener(), order.encode());
    CHECK(all_of(passed) == random_bytes(300'000, 1));
}

TEST_CASE("a file of another node comes whole, read-only, as good as a file") {
    Cluster cluster;
    for (std::size_t size : {0u, 1u, 4096u, 100'000u, 2'500'000u, 20'000'000u}) {
        std::string path = cluster.file_of({&cluster.b}, size, size),
                    bytes(random_bytes(size, size));
        for (int again = 0; again < 3; ++again) {
            auto opened = cluster.open(path);
            REQUIRE(opened.ok());
            const Fd& fd = opened->fd;
            CHECK(all_of(fd) == bytes);
            CHECK(::lseek(fd.get(), 0, SEEK_CUR) == 0);
            CHECK(::lseek(fd.get(), 0, SEEK_END) == static_cast<off_t>(size));
            struct stat info = about(fd);
            CHECK(info.st_size == static_cast<off_t>(size));
            CHECK((info.st_mode & 07777) == 0400);
            CHECK(info.st_nlink == 0);
            CHECK((::fcntl(fd.get(), F_GETFL) & O_ACCMODE) == O_RDONLY);
            if (::geteuid() != 0) {  // root may do anything
                std::string name = "/proc/self/fd/" + std::to_string(fd.get());
                CHECK_FALSE(Fd(::open(name.c_str(), O_RDWR | O_CLOEXEC)));
            }
            if (size > 0) {
                void* map = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd.get(), 0);
                REQUIRE(map != MAP_FAILED);
                CHECK(std::memcmp(map, bytes.data(), size) == 0);
                ::munmap(map, size);
            }
            struct stat original{};
            REQUIRE(::stat(path.c_str(), &original) == 0);
            Attributes expected = Attributes::of(original);
            expected.atime_ns = opened->attributes.atime_ns;  // it was read since
            CHECK((opened->attributes.encode() == expected.encode()));
        }
    }
    CHECK(cluster.counters().fetched == 18);
    CHECK(cluster.counters().local == 0);
    CHECK(cluster.b.agent().files().fill_counters().started == 6);
    CHECK(cluster.a.store().list("", "", 10).empty());  // it keeps nothing that is not its own
    CHECK(files_in(cluster.a.tier(Tier::Memory)) == 0);
}

TEST_CASE("what was passed stays right whatever happens afterwards, and is never written again") {
    Cluster cluster;
    std::vector<Opened> passed;
    std::vector<std::string> paths, contents;
    std::set<ino_t> inodes;
    auto open_one = [&](const std::string& path, const std::string& bytes) {
        auto opened = cluster.open(path);
        REQUIRE(opened.ok());
        CHECK(inodes.insert(inode(opened->fd)).second);
        passed.push_back(std::move(*opened));
        contents.push_back(bytes);
    };
    for (std::uint64_t i = 0; i < 6; ++i) {
        paths.push_back(cluster.file_of({i % 2 ? &cluster.a : &cluster.b}, 200'000 + i, i));
        open_one(paths.back(), random_bytes(200'000 + i, i));
    }
    for (Node* node : {&cluster.a, &cluster.b})  // as eviction or a drop would take them
        for (auto& object : node->store().list("@file", "", 100)) node->store().drop(object->key);
    for (auto& path : paths) write_file(path, random_bytes(200'000, 99));  // in place
    for (Node* node : {&cluster.a, &cluster.b}) node->agent().files().catalog().refresh("/");
    for (auto& path : paths) open_one(path, random_bytes(200'000, 99));
    for (std::uint64_t i = 0; i < 100; ++i) {  // the spare files move on
        auto other = cluster.file_of({&cluster.b}, 200'000, 1000 + i);
        REQUIRE(cluster.open(other).ok());
    }
    for (std::size_t i = 0; i < passed.size(); ++i) CHECK(all_of(passed[i].fd) == contents[i]);
    cluster.b.stop();
    cluster.a.stop();
    for (std::size_t i = 0; i < passed.size(); ++i) CHECK(all_of(passed[i].fd) == contents[i]);
}

TEST_CASE("an owner that dies in the middle of a fetch: the next one gives all of it") {
    for (std::uint64_t cut : {200u, 1'000u, 500'000u, 2'400'000u, 2'500'150u}) {
        Cluster cluster;
        std::string path = cluster.file_of({&cluster.b, &cluster.c}, 2'500'000, 7);
        Proxy proxy(cluster.b.tcp);
        proxy.cut_after = cut;
        cluster.found_at(proxy.tcp, cluster.c.tcp);
        auto opened = cluster.open(path);
        REQUIRE(opened.ok());
        CHECK(all_of(opened->fd) == random_bytes(2'500'000, 7));
        CHECK(cluster.counters().failures == 1);
        CHECK(cluster.doubted() == std::vector{cluster.b.number});
        CHECK(cluster.c.agent().files().fill_counters().started == 1);
        std::uint64_t before = proxy.came_back;
        CHECK(cluster.open(path).ok());  // and is left alone from then on
        CHECK(proxy.came_back == before);
        CHECK(cluster.counters().failures == 1);
    }
}

TEST_CASE("an owner that takes requests and never answers costs a few deadlines, then none") {
    Cluster cluster;
    Silent silent;
    cluster.found_at(silent.tcp, cluster.c.tcp);
    cluster.a.agent().opener().set(
        {.strikes = 2, .avoid = 1h, .file_deadline = 200ms, .deadline = 5s});
    std::string path = cluster.file_of({&cluster.b, &cluster.c}, 100'000, 7);
    for (std::uint64_t strike = 1; strike <= 2; ++strike) {
        auto start = Clock::now();
        auto opened = cluster.open(path);
        REQUIRE(opened.ok());
        CHECK(all_of(opened->fd) == random_bytes(100'000, 7));
        CHECK(Clock::now() - start >= 200ms);
        CHECK(cluster.counters().failures == strike);
    }
    CHECK(cluster.doubted() == std::vector{cluster.b.number, cluster.b.number});
    for (int i = 0; i < 20; ++i) CHECK(cluster.open(path).ok());
    CHECK(cluster.counters().failures == 2);  // nobody asked it
}

TEST_CASE("when the owner fails, each policy does what it says") {
    Cluster cluster;
    cluster.found_at(gone(), cluster.c.tcp);
    std::string path = cluster.file_of({&cluster.b, &cluster.c}, 100'000, 7);
    for (int again = 0; again < 2; ++again) {  // it failed, and then: it is left alone
        auto aborted = cluster.open(path, OnFailure::Abort);
        REQUIRE_FALSE(aborted.ok());
        CHECK(aborted.status().code() == Code::Unavailable);
        CHECK(aborted.status().message().find(path) != std::string::npos);
        CHECK(cluster.open(path, OnFailure::Redirect).status().code() == Code::NotCached);
        CHECK(cluster.c.agent().files().fill_counters().started == 0);
    }
    auto opened = cluster.open(path, OnFailure::Recache);
    REQUIRE(opened.ok());
    CHECK(all_of(opened->fd) == random_bytes(100'000, 7));
    CHECK(cluster.counters().failures == 1);
    // The last owner is this node itself.
    cluster.found_at(gone(), gone());
    CHECK(cluster.open(path).ok());
    CHECK(cluster.counters().local == 1);
}

TEST_CASE("when no owner is left the shared file system has it") {
    Cluster cluster;
    std::string path = cluster.file_of({&cluster.b, &cluster.c}, 100'000, 7);
    Ring ring({cluster.b.name(), cluster.c.name()}, 16);  // this node is a spare
    cluster.a.agent().set_placement(
        Placement::make(ring, {cluster.b.number, cluster.c.number}, {gone(), gone()}, 2));
    CHECK(cluster.open(path).status().code() == Code::NotCached);
    CHECK(cluster.counters().failures == 2);
    cluster.a.agent().set_placement(Placement::make(Ring({}, 16), {}, {}, 3));
    CHECK(cluster.open(path).status().code() == Code::NotCached);
}

TEST_CASE("those who open a file at once share one fetch, and have an offset each") {
    Cluster cluster;
    Proxy proxy(cluster.b.tcp);
    cluster.found_at(proxy.tcp, cluster.c.tcp);
    constexpr std::size_t kSize = 1'000'000;
    std::string path = cluster.file_of({&cluster.b}, kSize, 7);
    proxy.held = true;
    std::vector<std::thread> threads;
    std::vector<Opened> all(20);
    for (auto& mine : all) {
        threads.emplace_back([&] {
            auto opened = cluster.open(path);
            CHECK(opened.ok());
            if (opened.ok()) mine = std::move(*opened);
        });
    }
    CHECK(eventually([&] { return cluster.a.agent().opener().joined() == all.size() - 1; }));
    proxy.held = false;
    for (auto& thread : threads) thread.join();
    CHECK(cluster.counters().fetched_bytes == kSize);
    CHECK(cluster.counters().fetched == all.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
        CHECK(::lseek(all[i].fd.get(), static_cast<off_t>(i), SEEK_CUR) == static_cast<off_t>(i));
        CHECK(inode(all[i].fd) == inode(all[0].fd));
        CHECK(all_of(all[i].fd) == random_bytes(kSize, 7));
    }
}

TEST_CASE("whoever opens after a refresh does not join a fetch from before it") {
    Cluster cluster;
    Proxy proxy(cluster.b.tcp);
    cluster.found_at(proxy.tcp, cluster.c.tcp);
    std::string path = cluster.file_of({&cluster.b}, 100'000, 7);
    REQUIRE(cluster.open(path).ok());
    // The old bytes are on their way, held up by the network.
    proxy.hold_present();
    std::uint64_t requests = cluster.b.agent().server().traffic().requests;
    Opened before, after;
    std::thread early([&] { before = std::move(*cluster.open(path)); });
    CHECK(eventually([&] { return cluster.b.agent().server().traffic().requests > requests; }));
    write_file(path + ".new", random_bytes(50'000, 8));
    std::filesystem::rename(path + ".new", path);
    for (Node* node : {&cluster.a, &cluster.b})
        node->agent().files().catalog().refresh(cluster.shared.path());
    after = std::move(*cluster.open(path));
    CHECK(cluster.a.agent().opener().joined() == 0);
    proxy.let_go();
    early.join();
    CHECK(all_of(before.fd) == random_bytes(100'000, 7));
    CHECK(all_of(after.fd) == random_bytes(50'000, 8));
}

TEST_CASE("a second copy that is here spares the way to the owner, and is not worth a read") {
    Cluster cluster;
    std::string path = cluster.file_of({&cluster.b, &cluster.a}, 100'000, 7);
    FileOrder order = cluster.order(path);
    order.copies = 2;
    REQUIRE(cluster.open(order).ok());
    CHECK(cluster.counters().fetched == 1);
    CHECK(cluster.a.agent().files().fill_counters().started == 0);
    auto theirs = cluster.b.store().list("@file", "", 10);
    REQUIRE(theirs.size() == 1);
    REQUIRE(cluster.a.pull({theirs[0]->key, cluster.b.tcp, Tier::Memory}).ok());
    auto opened = cluster.open(order);
    REQUIRE(opened.ok());
    CHECK(all_of(opened->fd) == random_bytes(100'000, 7));
    CHECK(cluster.counters().local == 1);
    CHECK(cluster.counters().fetched == 1);
}

TEST_CASE("a copy that went bad at its owner is found, given up there and read again") {
    Cluster cluster;
    std::string path = cluster.file_of({&cluster.b}, 1'000'000, 7);
    REQUIRE(cluster.open(path).ok());
    auto object = cluster.b.store().list("@file", "", 10).at(0);
    std::string file = cluster.b.tier(Tier::Memory) + "/" + object->name;
    REQUIRE(::chmod(file.c_str(), 0600) == 0);
    Fd bad(::open(file.c_str(), O_RDWR | O_CLOEXEC));
    REQUIRE(::pwrite(bad.get(), "?!?!", 4, 500'000) == 4);
    auto opened = cluster.open(path);
    REQUIRE(opened.ok());
    CHECK(all_of(opened->fd) == random_bytes(1'000'000, 7));
    CHECK(cluster.b.store().counters().damaged == 1);
    CHECK(cluster.counters().failures == 0);  // the node did not fail
}

TEST_CASE("what its owner does not cache, or this node has no room for, is not cached") {
    Cluster cluster;
    std::string path = cluster.file_of({&cluster.b}, 1'000'000, 7);
    FileOrder order = cluster.order(path);
    order.largest = 1000;
    CHECK(cluster.open(order).status().code() == Code::NotCached);
    CHECK(cluster.open(cluster.order(cluster.shared / "absent")).status().code() ==
          Code::NotCached);
    REQUIRE(put(cluster.a.store(), "data", std::string(255 << 20, 'x')).ok());  // has no source
    CHECK(cluster.open(path).ok());
    REQUIRE(put(cluster.a.store(), "more", std::string(512 << 10, 'x')).ok());
    CHECK(cluster.open(path).ok());  // by the disk
    Store::NewObject rest{.key = "rest", .size = 256 << 20, .tier = Tier::Disk};
    auto disk = cluster.a.store().create(rest);
    REQUIRE(disk.ok());
    CHECK(cluster.open(path).status().code() == Code::NotCached);
    CHECK(cluster.a.agent().files().counters().no_room == 1);
    CHECK(cluster.counters().failures == 0);
}

TEST_CASE("whoever asks to look first gets the file as it is now") {
    Cluster cluster;
    std::string path = cluster.file_of({&cluster.b}, 100'000, 7);
    REQUIRE(cluster.open(path).ok());
    write_file(path + ".new", random_bytes(50'000, 8));
    std::filesystem::rename(path + ".new", path);
    CHECK(all_of(cluster.open(path)->fd) == random_bytes(100'000, 7));  // rule 12
    FileOrder order = cluster.order(path);
    order.validate = true;
    CHECK(all_of(cluster.open(order)->fd) == random_bytes(50'000, 8));
    CHECK(all_of(cluster.open(path)->fd) == random_bytes(50'000, 8));
}

TEST_CASE("whoever asks to look first does not join one who looked before") {
    Cluster cluster;
    Proxy proxy(cluster.b.tcp);
    cluster.found_at(proxy.tcp, cluster.c.tcp);
    FileOrder order = cluster.order(cluster.file_of({&cluster.b}, 100'000, 7));
    order.validate = true;
    REQUIRE(cluster.open(order).ok());
    proxy.hold_present();
    std::uint64_t hits = cluster.b.agent().files().counters().hits;
    Opened before;
    std::thread early([&] { before = std::move(*cluster.open(order)); });
    // The owner has looked, and what it says is held up by the network.
    CHECK(eventually([&] { return cluster.b.agent().files().counters().hits > hits; }));
    write_file(order.path, random_bytes(50'000, 8));
    Opened after = std::move(*cluster.open(order));
    proxy.let_go();
    early.join();
    CHECK(all_of(before.fd) == random_bytes(100'000, 7));
    CHECK(all_of(after.fd) == random_bytes(50'000, 8));
}

TEST_CASE("files are opened over the Unix socket only") {
    Cluster cluster;
    std::string path = cluster.file_of({&cluster.a}, 1000, 7);
    auto far = cluster.remote.open_file(cluster.a.tcp, cluster.order(path), kDeadline);
    CHECK(far.status().code() == Code::BadInput);
}

TEST_CASE("a change waits for the programs of members that could not be told") {
    Cluster cluster;
    std::string path = cluster.file_of({&cluster.a}, 1000, 1);
    auto invalidate = [&] {
        TimePoint before = Clock::now();
        Question question{.op = Op::Invalidate, .meta = InvalidateMessage{path, ""}.encode()};
        CHECK(cluster.remote.connections().ask(cluster.a.local, question, kDeadline).ok());
        return Clock::now() - before;
    };
    invalidate();
    CHECK(cluster.b.agent().files().invalidated().contains(path));
    cluster.found_at(cluster.b.tcp, gone());
    CHECK(invalidate() >= AttributeTable::kFresh);  // it may have died a moment ago
}
