// Single-use files: whole, read-only and without a name, and nobody writes to one twice.
#include "files/single_use.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <set>
#include <thread>

#include "store/tmpfs.hpp"
#include "support.hpp"

using namespace holdfast;
using namespace holdfast::test;

namespace {

Result<Fd> filled(Store& store, std::string_view bytes) {
    auto file = SingleUse::make(store);
    if (!file.ok()) return file.take_status();
    if (Status status = file->set_size(bytes.size()); !status.ok()) return status;
    if (Status status = file->write(bytes.data(), bytes.size()); !status.ok()) return status;
    return std::move(*file).seal();
}

struct stat about(const Fd& fd) {
    struct stat info{};
    REQUIRE(::fstat(fd.get(), &info) == 0);
    return info;
}

constexpr std::uint64_t kMB = 1 << 20;

}  // namespace

TEST_CASE("what is passed is whole, read-only and without a name") {
    StoreDir place(512 * kMB);
    std::set<std::pair<dev_t, ino_t>> seen;
    std::vector<Fd> passed;
    std::vector<std::string> contents;
    for (std::uint64_t i = 0; i < 40; ++i) {
        std::size_t sizes[] = {0, 1, 4096, 100'000, 2'500'001};
        std::string bytes = random_bytes(sizes[i % 5], i);
        auto file = filled(*place.store, bytes);
        REQUIRE(file.ok());
        struct stat info = about(*file);
        CHECK(info.st_size == static_cast<off_t>(bytes.size()));
        CHECK((info.st_mode & 07777) == 0400);
        CHECK(info.st_nlink == 0);
        CHECK((::fcntl(file->get(), F_GETFL) & O_ACCMODE) == O_RDONLY);
        CHECK(::pwrite(file->get(), "x", 1, 0) == -1);
        CHECK(seen.insert({info.st_dev, info.st_ino}).second);  // none was used twice
        passed.push_back(std::move(*file));
        contents.push_back(std::move(bytes));
    }
    for (std::size_t i = 0; i < passed.size(); ++i) CHECK(all_of(passed[i]) == contents[i]);
    CHECK(place.store->usage(Tier::Memory).reserved == 0);
}

TEST_CASE("a file counts in the tier until it is passed") {
    StoreDir place(64 * kMB);
    auto reserved = [&] { return place.store->usage(Tier::Memory).reserved; };
    {
        auto file = SingleUse::make(*place.store);
        REQUIRE(file.ok());
        CHECK(reserved() == 0);
        REQUIRE(file->set_size(500'000).ok());
        CHECK(reserved() == 503'808);  // whole pages
        SingleUse moved(std::move(*file));
        CHECK(reserved() == 503'808);
    }
    CHECK(reserved() == 0);
}

TEST_CASE("a file that is given up, or not whole, gives its room back and passes nothing") {
    StoreDir place(64 * kMB);
    std::size_t before = open_descriptors();
    {
        {
            auto file = SingleUse::make(*place.store);
            CHECK(file->set_size(1000).ok());
        }
        auto file = SingleUse::make(*place.store);
        CHECK(file->set_size(1000).ok());
        REQUIRE(file->write("half", 4).ok());
        CHECK(file->write(random_bytes(1000, 1).data(), 1000).code() == Code::Damaged);
        CHECK(std::move(*file).seal().status().code() == Code::Damaged);
    }
    CHECK(place.store->usage(Tier::Memory).reserved == 0);
    CHECK(open_descriptors() == before);
}

TEST_CASE("where memory is full of what has no source, files lie on the disk") {
    StoreDir place(8 * kMB, 8 * kMB);
    REQUIRE(put(*place.store, "key", random_bytes(8 * kMB, 1)).ok());
    std::string bytes = random_bytes(2 * kMB, 2);
    {
        auto file = SingleUse::make(*place.store);
        REQUIRE(file->set_size(bytes.size()).ok());
        CHECK(place.store->usage(Tier::Memory).reserved == 0);
        CHECK(place.store->usage(Tier::Disk).reserved == bytes.size());
    }
    CHECK(place.store->usage(Tier::Disk).reserved == 0);
    auto file = filled(*place.store, bytes);
    REQUIRE(file.ok());
    struct stat info = about(*file);
    CHECK((info.st_mode & 07777) == 0400);
    CHECK(info.st_nlink == 0);
    CHECK(all_of(*file) == bytes);
    CHECK(place.store->usage(Tier::Disk).reserved == 0);
    CHECK(contents(*place.store, "key") == random_bytes(8 * kMB, 1));
}

TEST_CASE("tiers that are full of what has no source give no file, and keep what they have") {
    StoreDir place(8 * kMB, 0);
    REQUIRE(put(*place.store, "key", random_bytes(7 * kMB, 1)).ok());
    CHECK(SingleUse::make(*place.store)->set_size(2 * kMB).code() == Code::Full);
    CHECK(filled(*place.store, random_bytes(kMB / 4, 2)).ok());
    CHECK(SingleUse::make(*place.store)->set_size(~std::uint64_t{0}).code() == Code::Full);
    CHECK(contents(*place.store, "key") == random_bytes(7 * kMB, 1));
}

TEST_CASE("what programs hold open takes its room from other files, and not from objects") {
    if (!make_tmpfs(kMB).ok()) {
        MESSAGE("skipped: no tmpfs of our own is permitted");
        return;
    }
    StoreDir place(8 * kMB, 0);
    std::vector<Fd> held;
    for (std::uint64_t i = 0; i < 3; ++i) {
        auto file = filled(*place.store, random_bytes(2 * kMB, i));
        REQUIRE(file.ok());
        held.push_back(std::move(*file));
    }
    // Evicted by what follows, and held, too.
    REQUIRE(put_as(*place.store, {.key = "copy", .has_source = true}, random_bytes(kMB, 4)).ok());
    held.push_back(std::move(*place.store->open_file(place.store->find("copy"))));
    auto refused = filled(*place.store, random_bytes(2 * kMB, 5));
    CHECK(refused.status().code() == Code::Full);
    CHECK(put_as(*place.store, {.key = "other", .has_source = true}, random_bytes(2 * kMB, 6))
              .status()
              .code() == Code::Full);
    CHECK(place.store->usage(Tier::Memory).reserved == 0);
    REQUIRE(put(*place.store, "object", random_bytes(7 * kMB, 7)).ok());
    place.store->drop("object");
    held.clear();
    CHECK(filled(*place.store, random_bytes(2 * kMB, 5)).ok());
}

TEST_CASE("what programs hold open sends other files to the disk") {
    if (!make_tmpfs(kMB).ok()) {
        MESSAGE("skipped: no tmpfs of our own is permitted");
        return;
    }
    StoreDir place(8 * kMB, 8 * kMB);
    std::vector<Fd> held;
    for (std::uint64_t i = 0; i < 6; ++i) {
        auto file = filled(*place.store, random_bytes(2 * kMB, i));
        REQUIRE(file.ok());
        held.push_back(std::move(*file));
    }
    CHECK(place.store->counters().spilled == 2);
    for (std::uint64_t i = 0; i < 6; ++i) CHECK(all_of(held[i]) == random_bytes(2 * kMB, i));
}

TEST_CASE("many make some at once") {
    StoreDir place(512 * kMB);
    std::vector<std::thread> threads;
    for (std::uint64_t t = 0; t < 8; ++t) {
        threads.emplace_back([&, t] {
            for (std::uint64_t i = 0; i < 20; ++i) {
                std::string bytes = random_bytes(50'000 + 10'000 * i, t * 100 + i);
                auto file = filled(*place.store, bytes);
                CHECK(file.ok());
                if (file.ok()) CHECK(all_of(*file) == bytes);
            }
        });
    }
    for (auto& thread : threads) thread.join();
    CHECK(place.store->usage(Tier::Memory).reserved == 0);
}
