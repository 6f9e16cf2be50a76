// Directories as documents: what is read is what is there, and what is spoilt is refused.
#include "files/listing.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "fuzz.hpp"
#include "support.hpp"

using namespace holdfast;
using namespace holdfast::test;

TEST_CASE("a listing has the names, attributes and targets that are there") {
    TempDir dir;
    std::string root = dir / "root";
    std::filesystem::create_directories(root + "/sub/empty");
    std::ofstream(root + "/sub/file") << "1234";
    REQUIRE(::symlink("../elsewhere", (root + "/sub/link").c_str()) == 0);
    auto listing = list_directory(root, root + "/sub");
    REQUIRE(listing.ok());
    REQUIRE(listing->entries.size() == 3);
    struct stat info{};
    REQUIRE(::stat((root + "/sub/file").c_str(), &info) == 0);
    const Entry* file = listing->find("file");
    REQUIRE(file != nullptr);
    CHECK(file->attributes == Attributes::of(info));
    CHECK(listing->find("link")->target == "../elsewhere");
    CHECK(S_ISLNK(listing->find("link")->attributes.mode));
    CHECK(S_ISDIR(listing->find("empty")->attributes.mode));
    CHECK(listing->find("fil") == nullptr);
    CHECK(listing->find("zzz") == nullptr);
    CHECK(list_directory(root, root)->entries.size() == 1);
    CHECK(list_directory(root, root + "/sub/empty")->entries.empty());
}

TEST_CASE("what is no directory below the root has no listing") {
    TempDir dir;
    std::string root = dir / "root";
    std::filesystem::create_directories(root);
    std::ofstream(root + "/file") << "1234";
    REQUIRE(::symlink("/", (root + "/out").c_str()) == 0);
    for (auto name : {"/file", "/missing", "/out", "/../root"})
        CHECK(list_directory(root, root + name).status().code() == Code::NotCached);
}

TEST_CASE("a document is the same after it travelled, and a spoilt one is refused or no worse") {
    Listing listing{{.mode = S_IFDIR | 0755, .inode = 7}, {}};
    for (auto name : {"a", "b\n", "\xff", "\xff\xfe"})
        listing.entries.push_back({name, {.mode = S_IFREG | 0644, .size = 9}, ""});
    listing.entries.push_back({"\xff\xff", {.mode = S_IFLNK | 0777}, "target"});
    std::string document = listing.encode();
    auto again = Listing::decode(document);
    REQUIRE(again.ok());
    CHECK(again->directory == listing.directory);
    CHECK(again->entries == listing.entries);
    for (std::size_t cut = 0; cut < document.size(); ++cut)
        CHECK(!Listing::decode(std::string_view(document).substr(0, cut)).ok());
    std::mt19937_64 random(1);
    for (int i = 0; i < 20'000; ++i) {
        std::string spoilt = document;
        mutate(spoilt, random);
        if (auto read = Listing::decode(spoilt); read.ok()) CHECK(read->encode() == spoilt);
    }
}
