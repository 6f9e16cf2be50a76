// What a node believes of files, and how it stops believing it.
#include "files/catalog.hpp"

#include "support.hpp"

using namespace holdfast;

namespace {

void learn(Catalog& catalog, const std::string& path, std::uint64_t inode = 1) {
    catalog.learn(path, {.inode = inode}, catalog.epoch());
}

}  // namespace

TEST_CASE("a refresh forgets a path and all below it, and nothing beside it") {
    Catalog catalog;
    for (const char* path : {"/a", "/a/b", "/a/b/c", "/a/bc", "/a/b.d", "/ab"})
        learn(catalog, path);
    CHECK(catalog.refresh("/a/b") == 2);
    CHECK_FALSE(catalog.find("/a/b"));
    CHECK_FALSE(catalog.find("/a/b/c"));
    for (const char* path : {"/a", "/a/bc", "/a/b.d", "/ab"}) CHECK(catalog.find(path));
    CHECK(catalog.refresh("/none") == 0);
    CHECK(catalog.refresh("/a/") == 2);
    CHECK(catalog.find("/a"));
    CHECK(catalog.refresh("/") == 2);
    CHECK_FALSE(catalog.find("/ab"));
}

TEST_CASE("what was seen before a refresh is not learnt after it") {
    Catalog catalog;
    auto before = catalog.epoch();
    catalog.refresh("/a");
    catalog.learn("/a", {.inode = 1}, before);
    CHECK_FALSE(catalog.find("/a"));
    learn(catalog, "/a", 2);
    CHECK(catalog.find("/a")->attributes.inode == 2);
}

TEST_CASE("after a distrust everything must be learnt again") {
    Catalog catalog;
    learn(catalog, "/a");
    learn(catalog, "/b");
    auto before = catalog.epoch();
    catalog.distrust();
    CHECK_FALSE(catalog.find("/a"));
    catalog.learn("/a", {.inode = 1}, before);
    CHECK_FALSE(catalog.find("/a"));
    learn(catalog, "/a", 3);
    CHECK(catalog.find("/a")->attributes.inode == 3);
    CHECK_FALSE(catalog.find("/b"));
    CHECK(catalog.refresh("/b") == 1);
}

TEST_CASE("a full catalog lets one path go for each new one, never the new one alone") {
    Catalog catalog(100);
    for (int i = 0; i < 1000; ++i) {
        std::string path = "/" + std::to_string(i % 500);
        learn(catalog, path);
        learn(catalog, path);  // again takes no room
    }
    CHECK(catalog.refresh("/") == 100);
}

TEST_CASE("what links lead to is distrusted without the rest") {
    Catalog catalog;
    catalog.learn("/direct", {.direct = true}, catalog.epoch());
    catalog.learn("/linked", {}, catalog.epoch());
    auto before = catalog.epoch();
    catalog.distrust_links();
    CHECK(catalog.find("/direct"));
    CHECK_FALSE(catalog.find("/linked"));
    catalog.learn("/linked", {}, before);  // looked at before
    CHECK_FALSE(catalog.find("/linked"));
    catalog.learn("/linked", {}, catalog.epoch());
    CHECK(catalog.find("/linked"));
}
