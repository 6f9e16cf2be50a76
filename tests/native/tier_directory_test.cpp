// The directory behind a tier: private, its files read-only, gone at the end.
#include "store/tier_directory.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "store/tmpfs.hpp"
#include "support.hpp"

using namespace holdfast;
using namespace holdfast::test;

TEST_CASE("a tier directory is private, and goes with what is in it") {
    TempDir dir;
    {
        auto made = TierDirectory::make(dir / "tier");
        REQUIRE(made.ok());
        struct stat info{};
        REQUIRE(::stat((dir / "tier").c_str(), &info) == 0);
        CHECK((info.st_mode & 07777) == 0700);
        auto file = made->create(1000);
        REQUIRE(file.ok());
        REQUIRE(::fstat(file->fd.get(), &info) == 0);
        CHECK((info.st_mode & 07777) == 0400);
        CHECK(made->publish(file->name, "final").ok());
        CHECK(made->open("final").ok());
        CHECK(made->create(1000).ok());
        TierDirectory moved(std::move(*made));
        CHECK(moved.open("final").ok());
        auto other = moved.create(1000);
        REQUIRE(other.ok());
        CHECK(other->number == 2);  // numbers go on: a name is never given twice
    }
    CHECK_FALSE(std::filesystem::exists(dir / "tier"));
}

TEST_CASE("a tier directory that exists is refused") {
    TempDir dir;
    auto first = TierDirectory::make(dir / "tier");
    REQUIRE(first.ok());
    CHECK_FALSE(TierDirectory::make(dir / "tier").ok());
    CHECK_FALSE(TierDirectory::make(dir / "no/such/parent").ok());
    CHECK(std::filesystem::exists(dir / "tier"));
}

TEST_CASE("a tier directory leaves one of its name alone that was made after it was removed") {
    TempDir dir;
    {
        auto first = TierDirectory::make(dir / "tier");
        REQUIRE(first.ok());
        std::filesystem::rename(dir / "tier", dir / "removed");
        std::filesystem::create_directory(dir / "tier");
    }
    CHECK(std::filesystem::exists(dir / "tier"));
}

TEST_CASE("failures say what happened") {
    TempDir dir;
    auto made = TierDirectory::make(dir / "tier");
    REQUIRE(made.ok());
    auto missing = made->open("nothing");
    CHECK(missing.status().code() == Code::Damaged);
    CHECK(missing.status().message().find("removed while") != std::string::npos);
    CHECK_FALSE(made->publish("nothing", "final").ok());
    std::filesystem::remove_all(dir / "tier");
    CHECK(made->create(1000).status().code() == Code::Damaged);
}

TEST_CASE("what fills huge pages lies in a tmpfs of our own, where that is permitted") {
    TempDir dir;
    bool permitted = make_tmpfs(1 << 20).ok();
    if (!permitted) MESSAGE("this kernel does not permit it: small pages are all there is");
    struct statfs below{};
    REQUIRE(::statfs((dir / ".").c_str(), &below) == 0);
    bool expected = permitted && below.f_type == TMPFS_MAGIC;
    std::string name;
    {
        auto made = TierDirectory::make(dir / "tier", true);
        REQUIRE(made.ok());
        CHECK(std::filesystem::exists(dir / "tier/large") == expected);
        auto small = made->create(1000), large = made->create(1 << 20);
        REQUIRE(small.ok());
        REQUIRE(large.ok());
        struct stat one{}, other{};
        REQUIRE(::fstat(small->fd.get(), &one) == 0);
        REQUIRE(::fstat(large->fd.get(), &other) == 0);
        CHECK((one.st_dev != other.st_dev) == expected);
        CHECK((other.st_mode & 07777) == 0400);
        CHECK(other.st_uid == ::geteuid());

        std::string bytes = random_bytes(1 << 20, 1);
        REQUIRE(::pwrite(large->fd.get(), bytes.data(), bytes.size(), 0) == 1 << 20);
        REQUIRE(made->publish(large->name, large->place + "final").ok());
        TierDirectory moved(std::move(*made));
        name = moved.path_of(large->place + "final");
        CHECK(read_file(name) == bytes);  // as another process would
        CHECK(moved.open(large->place + "final").ok());
        moved.remove(large->place + "final");
        CHECK_FALSE(std::filesystem::exists(name));
        auto nameless = moved.make_nameless();
        REQUIRE(nameless.ok());
        REQUIRE(::fstat(nameless->reading.get(), &one) == 0);
        CHECK(one.st_dev == other.st_dev);
    }
    CHECK_FALSE(std::filesystem::exists(dir / "tier"));
}

TEST_CASE("what a kernel goes by depends on its age") {
    CHECK(goes_by_size("4.18.0-553.el8_10.x86_64"));
    CHECK(goes_by_size("6.1.0-18-amd64"));
    CHECK(goes_by_size("6.13.12"));
    CHECK_FALSE(goes_by_size("6.14.0-rc1"));
    CHECK_FALSE(goes_by_size("6.18.5"));
    CHECK_FALSE(goes_by_size("7.0.0"));
}
