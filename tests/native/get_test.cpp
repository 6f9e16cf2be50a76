// Reading objects: any range, from either tier, as bytes or as a descriptor.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <random>

#include "support.hpp"

using namespace holdfast;
using namespace holdfast::test;

TEST_CASE("rule 7: what a member lacks says nothing of another that lived at its address") {
    Node node;
    agree({&node});
    AgentClient remote(kKey);
    std::uint64_t other = node.number + 1;
    for (const std::string& address : {node.tcp, node.local}) {
        CHECK(get(remote, address, {"key", 0, kToTheEnd, node.number}).status().code() ==
              Code::NotFound);
        CHECK(get(remote, address, {"key", 0, kToTheEnd, other}).status().code() ==
              Code::Unavailable);
        CHECK(remote.stat(address, "key", kDeadline, node.number).status().code() ==
              Code::NotFound);
        CHECK(remote.stat(address, "key", kDeadline, other).status().code() == Code::Unavailable);
    }
    std::string held = key_of({&node});
    REQUIRE(put(remote, {&node}, held, "bytes").ok());
    CHECK(*get(remote, node.tcp, {held, 0, kToTheEnd, other}) == "bytes");  // they are the same
    node.store().drop("dropped");
    CHECK(get(remote, node.tcp, {"dropped", 0, kToTheEnd, other}).status().code() == Code::Dropped);
}

TEST_CASE("any range equals that slice of the whole") {
    Node node;
    AgentClient remote(kKey);
    std::mt19937_64 random(1);
    for (std::size_t size : {std::size_t{5000}, std::size_t{3 * kChunk + 123}}) {
        for (Tier tier : {Tier::Memory, Tier::Disk}) {
            std::string key = std::to_string(size) + (tier == Tier::Disk ? "disk" : "memory");
            std::string bytes = random_bytes(size, size);
            REQUIRE(remote.put({node.local}, {node.number}, key, bytes, tier, kDeadline).ok());
            std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges = {
                {0, 0}, {0, kToTheEnd}, {size, 5}, {size - 1, 5}, {1, kToTheEnd}, {0, size - 1}};
            for (std::uint64_t edge = 0; edge <= size; edge += kChunk)
                for (std::uint64_t from : {edge - 1, edge, edge + 1})
                    for (std::uint64_t length : {std::uint64_t{1}, kChunk - 1, kChunk, kChunk + 1})
                        if (from <= size) ranges.emplace_back(from, length);
            for (int i = 0; i < 30; ++i)
                ranges.emplace_back(random() % (size + 1), random() % (2 * kChunk));
            for (auto [offset, length] : ranges) {
                auto got = get(remote, random() % 2 ? node.tcp : node.local, {key, offset, length});
                REQUIRE(got.ok());
                REQUIRE(*got == bytes.substr(offset, length));
            }
            CHECK(get(remote, node.local, {key, size + 1, 1}).status().code() == Code::BadInput);
        }
    }
}

TEST_CASE("a descriptor holds the object, and cannot write") {
    Node node;
    AgentClient remote(kKey);
    std::string bytes = random_bytes(500'000, 1);
    for (Tier tier : {Tier::Memory, Tier::Disk}) {
        std::string key = tier == Tier::Disk ? "disk" : "memory";
        REQUIRE(remote.put({node.local}, {node.number}, key, bytes, tier, kDeadline).ok());
        auto exchange = remote.get(node.local, {key}, true, kDeadline);
        REQUIRE(exchange.ok());
        Fd passed = exchange->take_descriptor();
        REQUIRE(passed);
        CHECK(ObjectInfo::decode(exchange->meta())->size == bytes.size());
        struct stat info{};
        REQUIRE(::fstat(passed.get(), &info) == 0);
        CHECK((info.st_mode & 07777) == 0400);
        CHECK((::fcntl(passed.get(), F_GETFL) & O_ACCMODE) == O_RDONLY);
        CHECK((::fcntl(passed.get(), F_GETFD) & FD_CLOEXEC) != 0);
        CHECK(::pwrite(passed.get(), "x", 1, 0) == -1);
        CHECK(::ftruncate(passed.get(), 0) == -1);
        CHECK(::mmap(nullptr, 4096, PROT_WRITE, MAP_SHARED, passed.get(), 0) == MAP_FAILED);
        std::string again = "/proc/self/fd/" + std::to_string(passed.get());
        // The mode forbids it to everybody but root, whom no mode stops.
        if (::geteuid() != 0) CHECK(::open(again.c_str(), O_RDWR | O_CLOEXEC) == -1);
        // It outlives the object's place in the store.
        REQUIRE(remote.drop(node.local, {key, {node.number}}, kDeadline).ok());
        CHECK(read_file(again) == bytes);
    }
}

TEST_CASE("where no descriptor can be passed, bytes come") {
    Node node;
    AgentClient remote(kKey);
    std::string bytes = random_bytes(100'000, 1);
    REQUIRE(remote.put({node.local}, {node.number}, "large", bytes, Tier::Memory, kDeadline).ok());
    REQUIRE(
        remote.put({node.local}, {node.number}, "small", "bytes", Tier::Memory, kDeadline).ok());
    CHECK(*body_of(remote.get(node.tcp, {"large"}, true, kDeadline)) == bytes);
    CHECK(*body_of(remote.get(node.local, {"small"}, true, kDeadline)) == "bytes");
}

TEST_CASE("stat, list, drop and verify as a client asks for them") {
    Node node;
    AgentClient remote(kKey);
    std::string bytes = random_bytes(100'000, 1);
    REQUIRE(remote.put({node.local}, {node.number}, "key", bytes, Tier::Disk, kDeadline).ok());
    auto info = remote.stat(node.tcp, "key", kDeadline);
    REQUIRE(info.ok());
    CHECK(info->size == bytes.size());
    CHECK(info->crc == crc32c(0, bytes.data(), bytes.size()));
    CHECK(info->tier == Tier::Disk);
    CHECK(remote.verify(node.tcp, "key", kDeadline).ok());
    CHECK(remote.drop(node.tcp, {"key", {node.number}}, kDeadline).ok());
    for (std::string key : {"key", "other"}) {
        Code code = key == "key" ? Code::Dropped : Code::NotFound;
        CHECK(get(remote, node.tcp, {key}).status().code() == code);
        CHECK(remote.stat(node.tcp, key, kDeadline).status().code() == code);
        CHECK(remote.verify(node.tcp, key, kDeadline).status().code() == code);
    }

    std::size_t count = 600;
    std::string tail(1000, 'k');
    for (std::size_t i = 0; i < count; ++i)
        REQUIRE(put(node.store(), std::to_string(1000 + i) + tail, "x").ok());
    std::size_t found = 0;
    ListMessage message{"1", ""};
    for (int pages = 0;; ++pages) {
        auto page = remote.list(node.local, message, kDeadline);
        REQUIRE(page.ok());
        for (auto& object : page->objects) {
            CHECK(object.key == std::to_string(1000 + found) + tail);
            ++found;
        }
        if (!page->more) break;
        REQUIRE(pages < 10);
        message.after = page->objects.back().key;
    }
    CHECK(found == count);
}

TEST_CASE("a copy that went bad is not served, to nobody") {
    Node node;
    AgentClient remote(kKey);
    std::string bytes = random_bytes(300'000, 1);
    auto damage = [&](const std::string& key, off_t at) {
        REQUIRE(remote.put({node.local}, {node.number}, key, bytes, Tier::Memory, kDeadline).ok());
        std::string path = node.tier(Tier::Memory) + "/" + node.store().find(key)->name;
        REQUIRE(::chmod(path.c_str(), 0600) == 0);
        Fd file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
        REQUIRE(::pwrite(file.get(), "?!?!?!?!", 8, at) == 8);
    };
    damage("whole", 200'000);
    CHECK(get(remote, node.tcp, {"whole"}).status().code() == Code::Damaged);
    CHECK(get(remote, node.tcp, {"whole", kChunk, 3 * kChunk}).status().code() == Code::Damaged);
    damage("edge", 200'000);
    CHECK(get(remote, node.tcp, {"edge", 199'000, 10}).status().code() == Code::Damaged);
    CHECK(get(remote, node.tcp, {"edge"}).status().code() == Code::Damaged);
    REQUIRE(remote.put({node.local}, {node.number}, "cut", bytes, Tier::Memory, kDeadline).ok());
    std::string path = node.tier(Tier::Memory) + "/" + node.store().find("cut")->name;
    REQUIRE(::chmod(path.c_str(), 0600) == 0);
    REQUIRE(::truncate(path.c_str(), 1000) == 0);
    CHECK(get(remote, node.tcp, {"cut"}).status().code() == Code::Damaged);
    CHECK(node.store().counters().damaged == 2);
}
