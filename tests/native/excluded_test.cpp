// Paths that left the cache, and how they return.
#include "files/excluded.hpp"

#include "files/messages.hpp"
#include "support.hpp"

using namespace holdfast;

namespace {

void leave(Excluded& one, const std::string& path) {
    CHECK(one.learn(one.leaving(path, 0)) == Excluded::News::Left);
}

void return_to(Excluded& one, const std::string& path) {
    CHECK(one.learn(one.returning(path)) == Excluded::News::Returned);
}

}  // namespace

TEST_CASE("a path leaves with all below it, and nothing beside it") {
    Excluded excluded;
    CHECK_FALSE(excluded.contains("/a/b"));
    leave(excluded, "/a/b");
    for (const char* path : {"/a/b", "/a/b/c", "/a/b/c/d"}) CHECK(excluded.contains(path));
    for (const char* path : {"/", "/a", "/a/bc", "/a/c"}) CHECK_FALSE(excluded.contains(path));
}

TEST_CASE("it returns when it, or what is above it, is refreshed, and can leave again") {
    Excluded excluded;
    CHECK(excluded.returning("/a").empty());  // nothing is out
    leave(excluded, "/a/b");
    leave(excluded, "/a/c");
    return_to(excluded, "/a/b");
    CHECK_FALSE(excluded.contains("/a/b"));
    CHECK(excluded.contains("/a/c"));
    leave(excluded, "/a/b");
    CHECK(excluded.contains("/a/b"));
    return_to(excluded, "/a");
    CHECK_FALSE(excluded.contains("/a/b"));
    CHECK_FALSE(excluded.contains("/a/c/d"));
    CHECK(excluded.returning("/a").empty());
    leave(excluded, "/");
    return_to(excluded, "/a");
    CHECK_FALSE(excluded.contains("/a"));
    CHECK(excluded.contains("/b"));
}

TEST_CASE("whoever changes a path again and again says nothing new") {
    Excluded excluded;
    leave(excluded, "/a");
    CHECK(excluded.leaving("/a", 0) == excluded.leaving("/a", 0));
    std::string before = excluded.leaving("/a", 0);
    return_to(excluded, "/a");
    CHECK(excluded.leaving("/a", 0) != before);
}

TEST_CASE("members that hear the same in any order agree, and leaving wins a draw") {
    Excluded one, other;
    leave(one, "/a");
    std::string left = one.leaving("/a", 0);
    std::string back = one.returning("/a");
    CHECK(one.learn(back) == Excluded::News::Returned);
    CHECK(other.learn(back) == Excluded::News::Returned);
    CHECK(other.learn(left) == Excluded::News::Left);
    CHECK_FALSE(one.contains("/a"));
    CHECK_FALSE(other.contains("/a"));
    // At the same time, without knowledge of each other: a change and a refresh from above.
    Excluded third;
    CHECK(third.learn(left) == Excluded::News::Left);
    CHECK(third.learn(back) == Excluded::News::Returned);
    leave(third, "/a/b");
    leave(other, "/a/c");
    std::string refreshed = other.returning("/a");
    CHECK(third.learn(other.leaving("/a/c", 0)) == Excluded::News::Left);
    CHECK(third.learn(refreshed) == Excluded::News::Returned);
    CHECK_FALSE(third.contains("/a/b"));
    CHECK_FALSE(third.contains("/a/c"));
}

TEST_CASE("other names of a file are out as long as the name that was changed") {
    Excluded excluded;
    CHECK(excluded.learn(excluded.leaving("/a/b", 7)) == Excluded::News::Left);
    CHECK(excluded.learn(excluded.leaving("/a/c", 7)) == Excluded::News::Left);
    CHECK(excluded.contains(7));
    CHECK_FALSE(excluded.contains(8));
    CHECK_FALSE(excluded.contains(0));
    return_to(excluded, "/a/b");
    CHECK(excluded.contains(7));
    return_to(excluded, "/a");
    CHECK_FALSE(excluded.contains(7));
}

TEST_CASE("other keys that were dropped say nothing of paths") {
    Excluded excluded;
    for (const std::string& key :
         {std::string("name"), std::string("@file/a"), file_key("/a", {1, 2, 3, 4}),
          file_prefix("/a"), file_prefix("/a") + "left",
          file_prefix("/a") + "gone1234567887654321"})
        CHECK(excluded.learn(key) == Excluded::News::Nothing);
    CHECK_FALSE(excluded.contains("/a"));
}

TEST_CASE("a link or a directory leaves as a way to other names, whatever inode it has") {
    Excluded excluded;
    CHECK(excluded.empty());
    CHECK(excluded.learn(excluded.leaving("/a", Excluded::kWay)) == Excluded::News::WayLeft);
    CHECK_FALSE(excluded.empty());
    CHECK(excluded.contains("/a/b"));
    CHECK_FALSE(excluded.contains(Excluded::kWay));
}
