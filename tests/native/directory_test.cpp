// The directory behind a tier: private, its files read-only, gone at the end.
#include "store/directory.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

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
        auto file = made->create();
        REQUIRE(file.ok());
        REQUIRE(::fstat(file->fd.get(), &info) == 0);
        CHECK((info.st_mode & 07777) == 0400);
        CHECK(made->publish(file->name, "final").ok());
        CHECK(made->open("final").ok());
        CHECK(made->create().ok());
        TierDirectory moved(std::move(*made));
        CHECK(moved.open("final").ok());
        auto other = moved.create();
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

TEST_CASE("failures say what happened") {
    TempDir dir;
    auto made = TierDirectory::make(dir / "tier");
    REQUIRE(made.ok());
    auto missing = made->open("nothing");
    CHECK(missing.status().code() == Code::Damaged);
    CHECK(missing.status().message().find("removed underneath") != std::string::npos);
    CHECK_FALSE(made->publish("nothing", "final").ok());
    std::filesystem::remove_all(dir / "tier");
    CHECK(made->create().status().code() == Code::Damaged);
}
