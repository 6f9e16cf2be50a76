// What programs are told of the originals of their copies.
#include "files/attribute_table.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <thread>

#include "base/attribute_table.h"
#include "support.hpp"

using namespace holdfast;
using namespace holdfast::test;

namespace {

// As a program sees it: read-only.
struct View {
    const hf_table* table;
    explicit View(const std::string& path) {
        Fd file(::open(path.c_str(), O_RDONLY));
        void* at = ::mmap(nullptr, sizeof(hf_table), PROT_READ, MAP_SHARED, file.get(), 0);
        REQUIRE(at != MAP_FAILED);
        table = static_cast<const hf_table*>(at);
    }
    ~View() { ::munmap(const_cast<hf_table*>(table), sizeof *table); }

    const hf_entry* of(int descriptor) const {
        struct stat info{};
        REQUIRE(::fstat(descriptor, &info) == 0);
        const hf_entry* set = table->entries + hf_table_first(info.st_dev, info.st_ino);
        for (unsigned way = 0; way < HF_TABLE_WAYS; ++way)
            if (set[way].copy_inode == info.st_ino && set[way].copy_device == info.st_dev)
                return set + way;
        return nullptr;
    }
};

Fd new_file(const std::string& path) {
    write_file(path, "copy");
    return Fd(::open(path.c_str(), O_RDONLY));
}

FileOrder order_of(const std::string& path) {
    return {.root = "/shared", .path = path};
}

}  // namespace

TEST_CASE("an entry tells what the original is like and where, and is replaced by a later one") {
    TempDir place;
    auto table = AttributeTable::open(place / "table");
    REQUIRE(table.ok());
    View view(place / "table");
    CHECK(view.table->magic == HF_TABLE_MAGIC);
    Fd copy = new_file(place / "copy");
    CHECK(view.of(copy.get()) == nullptr);
    (*table)->record(order_of("/shared/one"), {.mode = 0100644, .inode = 7, .size = 4}, copy.get());
    const hf_entry* entry = view.of(copy.get());
    REQUIRE(entry != nullptr);
    CHECK(entry->sequence % 2 == 0);
    CHECK(entry->sequence != 0);
    CHECK(std::string(entry->path) == "/shared/one");
    CHECK(entry->root_bytes == 7);
    CHECK(entry->inode == 7);
    (*table)->record(order_of("/shared/other"), {.inode = 8, .size = 4}, copy.get());
    CHECK(view.of(copy.get()) == entry);
    CHECK(std::string(entry->path) == "/shared/other");
    CHECK(entry->inode == 8);

    // A path that is too long is no entry, and spoils none.
    Fd second = new_file(place / "second");
    (*table)->record(order_of("/shared/" + std::string(HF_TABLE_PATH, 'x')), {}, second.get());
    CHECK(view.of(second.get()) == nullptr);
}

TEST_CASE("an agent that starts again goes on with the file, also with an entry half written") {
    TempDir place;
    Fd copy = new_file(place / "copy");
    {
        auto table = AttributeTable::open(place / "table");
        REQUIRE(table.ok());
        (*table)->record(order_of("/shared/one"), {.inode = 7}, copy.get());
    }
    View view(place / "table");
    const hf_entry* entry = view.of(copy.get());
    REQUIRE(entry != nullptr);
    CHECK(entry->inode == 7);
    Fd file(::open((place / "table").c_str(), O_RDWR));
    std::uint32_t odd = entry->sequence + 1;
    auto at = reinterpret_cast<const char*>(entry) - reinterpret_cast<const char*>(view.table);
    REQUIRE(::pwrite(file.get(), &odd, sizeof odd, at) == sizeof odd);
    auto table = AttributeTable::open(place / "table");
    REQUIRE(table.ok());
    (*table)->record(order_of("/shared/one"), {.inode = 9}, copy.get());
    CHECK(entry->sequence % 2 == 0);
    CHECK(entry->inode == 9);
}

TEST_CASE("all of the file has its place before anybody is told of it") {
    TempDir place;
    auto taken = [&] {
        struct stat info{};
        REQUIRE(::stat((place / "table").c_str(), &info) == 0);
        return static_cast<std::size_t>(info.st_blocks) * 512;
    };
    REQUIRE(AttributeTable::open(place / "table").ok());
    CHECK(taken() >= sizeof(hf_table));
    // What an agent left that did not come so far.
    Fd file(::open((place / "table").c_str(), O_RDWR | O_TRUNC));
    REQUIRE(::ftruncate(file.get(), sizeof(hf_table)) == 0);
    REQUIRE(taken() < sizeof(hf_table));
    REQUIRE(AttributeTable::open(place / "table").ok());
    CHECK(taken() >= sizeof(hf_table));
}

TEST_CASE("when its places are taken the oldest entry gives way") {
    TempDir place;
    auto table = AttributeTable::open(place / "table");
    REQUIRE(table.ok());
    View view(place / "table");
    // Eight others that lie where the first one does, as agents before us may have left them.
    Fd copy = new_file(place / "copy");
    (*table)->record(order_of("/shared/one"), {.inode = 1}, copy.get());
    const hf_entry* set = view.of(copy.get());
    REQUIRE(set != nullptr);
    struct stat info{};
    REQUIRE(::fstat(copy.get(), &info) == 0);
    auto first = hf_table_first(info.st_dev, info.st_ino);
    Fd file(::open((place / "table").c_str(), O_RDWR));
    for (unsigned way = 0; way < HF_TABLE_WAYS; ++way) {
        hf_entry other{};
        other.sequence = 2;
        other.stamp = way == 5 ? 1 : 100 + way;
        other.copy_inode = 1'000'000 + way;
        auto at = offsetof(hf_table, entries) + (first + way) * sizeof other;
        REQUIRE(::pwrite(file.get(), &other, sizeof other, static_cast<off_t>(at)) == sizeof other);
    }
    CHECK(view.of(copy.get()) == nullptr);
    (*table)->record(order_of("/shared/one"), {.inode = 1}, copy.get());
    CHECK(view.of(copy.get()) == view.table->entries + first + 5);
}

TEST_CASE("a root is told as the agent sees it, and looked at again when something changed") {
    TempDir place;
    std::string root = place / "root";
    REQUIRE(::mkdir(root.c_str(), 0700) == 0);
    auto table = AttributeTable::open(place / "table");
    REQUIRE(table.ok());
    View view(place / "table");
    std::uint64_t hash = hf_hash(root.data(), root.size());
    auto told = [&]() -> const hf_seen_root* {
        for (auto& one : view.table->roots)
            if (one.hash == hash) return &one;
        return nullptr;
    };
    auto inode = [](const std::string& path) {
        struct stat info{};
        REQUIRE(::stat(path.c_str(), &info) == 0);
        return info.st_ino;
    };
    CHECK(told() == nullptr);
    auto look = (*table)->look_at(root);
    REQUIRE(look);
    look();
    const hf_seen_root* seen = told();
    REQUIRE(seen != nullptr);
    CHECK(seen->inode == inode(root));
    CHECK(!(*table)->look_at(root));

    // Another directory takes its place. One looks at it; what is the same is not written again.
    std::uint32_t sequence = seen->sequence;
    (*table)->advance_epoch();
    look = (*table)->look_at(root);
    REQUIRE(look);
    CHECK(!(*table)->look_at(root));
    look();
    CHECK(seen->sequence == sequence);
    REQUIRE(::rename(root.c_str(), (place / "old").c_str()) == 0);
    REQUIRE(::mkdir(root.c_str(), 0700) == 0);
    (*table)->advance_epoch();
    {
        auto given_up = (*table)->look_at(root);
    }
    look = (*table)->look_at(root);
    REQUIRE(look);
    look();
    CHECK(seen->sequence != sequence);
    CHECK(seen->inode == inode(root));

    // One that is gone is not told, nor is one of an agent before.
    REQUIRE(::rmdir(root.c_str()) == 0);
    (*table)->advance_epoch();
    (*table)->look_at(root)();
    CHECK(told() == nullptr);
    REQUIRE(::mkdir(root.c_str(), 0700) == 0);
    (*table)->look_at(root)();
    REQUIRE(told() != nullptr);
    table->reset();
    table = AttributeTable::open(place / "table");
    CHECK(told() == nullptr);
}

TEST_CASE("a heart that was stopped says so when it goes on, and what was told no longer holds") {
    TempDir place;
    REQUIRE(AttributeTable::open(place / "table").ok());
    View view(place / "table");
    int ends[2];
    REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
    Fd said(ends[0]), say(ends[1]);
    struct Child {
        pid_t pid = ::fork();
        ~Child() {
            ::kill(pid, SIGKILL);
            ::waitpid(pid, nullptr, 0);
        }
    } child;
    if (child.pid == 0) {
        auto table =
            AttributeTable::open(place / "table", [&] { (void)!::write(say.get(), "away", 4); });
        if (table.ok()) (*table)->keep_beating();
        for (;;) ::pause();
    }
    REQUIRE(child.pid > 0);
    auto read = [](const std::uint64_t& field) {
        return std::atomic_ref(const_cast<std::uint64_t&>(field)).load();
    };
    REQUIRE(eventually([&] { return read(view.table->beat_ns) != 0; }));
    REQUIRE(::kill(child.pid, SIGSTOP) == 0);
    REQUIRE(::waitpid(child.pid, nullptr, WUNTRACED) == child.pid);
    std::uint64_t cache_epoch = read(view.table->cache_epoch);
    std::this_thread::sleep_for(AttributeTable::kFresh + 100ms);
    REQUIRE(::kill(child.pid, SIGCONT) == 0);
    pollfd waiting{said.get(), POLLIN, 0};
    CHECK(::poll(&waiting, 1, 20'000) == 1);
    CHECK(eventually([&] { return read(view.table->cache_epoch) > cache_epoch; }));
}

TEST_CASE("a table that cannot be made is a failure with a reason") {
    auto table = AttributeTable::open("/nowhere/table");
    REQUIRE_FALSE(table.ok());
    CHECK(table.status().message().find("/nowhere/table") != std::string::npos);
}
