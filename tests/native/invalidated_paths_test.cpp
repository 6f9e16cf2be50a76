// Paths that were invalidated, and how they return.
#include "files/invalidated_paths.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <random>

#include "files/files.hpp"
#include "files/messages.hpp"
#include "support.hpp"

using namespace holdfast;
using namespace holdfast::test;

namespace {

void invalidate(InvalidatedPaths& one, const std::string& path) {
    CHECK(one.learn(one.invalidation(path, 0)).news == InvalidatedPaths::News::Invalidated);
}

void return_to(InvalidatedPaths& one, const std::string& path) {
    CHECK(one.learn(one.readmission(path)).news == InvalidatedPaths::News::Returned);
}

}  // namespace

TEST_CASE("a path is invalidated with all below it, and nothing beside it") {
    InvalidatedPaths invalidated;
    CHECK_FALSE(invalidated.contains("/a/b"));
    invalidate(invalidated, "/a/b");
    for (const char* path : {"/a/b", "/a/b/c", "/a/b/c/d"}) CHECK(invalidated.contains(path));
    for (const char* path : {"/", "/a", "/a/bc", "/a/c"}) CHECK_FALSE(invalidated.contains(path));
}

TEST_CASE("it returns when it, or what is above it, is refreshed, and can be out again") {
    InvalidatedPaths invalidated;
    CHECK(invalidated.readmission("/a").empty());  // nothing is out
    invalidate(invalidated, "/a/b");
    invalidate(invalidated, "/a/c");
    return_to(invalidated, "/a/b");
    CHECK_FALSE(invalidated.contains("/a/b"));
    CHECK(invalidated.contains("/a/c"));
    invalidate(invalidated, "/a/b");
    CHECK(invalidated.contains("/a/b"));
    return_to(invalidated, "/a");
    CHECK_FALSE(invalidated.contains("/a/b"));
    CHECK_FALSE(invalidated.contains("/a/c/d"));
    CHECK(invalidated.readmission("/a").empty());
    invalidate(invalidated, "/");
    return_to(invalidated, "/a");
    CHECK_FALSE(invalidated.contains("/a"));
    CHECK(invalidated.contains("/b"));
}

TEST_CASE("whoever changes a path again and again says nothing new") {
    InvalidatedPaths invalidated;
    invalidate(invalidated, "/a");
    CHECK(invalidated.invalidation("/a", 0) == invalidated.invalidation("/a", 0));
    std::string before = invalidated.invalidation("/a", 0);
    return_to(invalidated, "/a");
    CHECK(invalidated.invalidation("/a", 0) != before);
}

TEST_CASE("members that hear the same in any order agree, and an invalidation wins a draw") {
    InvalidatedPaths one, other;
    invalidate(one, "/a");
    std::string gone = one.invalidation("/a", 0);
    std::string back = one.readmission("/a");
    CHECK(one.learn(back).news == InvalidatedPaths::News::Returned);
    CHECK(other.learn(back).news == InvalidatedPaths::News::Returned);
    CHECK(other.learn(gone).news == InvalidatedPaths::News::Returned);
    CHECK_FALSE(one.contains("/a"));
    CHECK_FALSE(other.contains("/a"));
    // At the same time, without knowledge of each other: a change and a refresh from above.
    InvalidatedPaths third;
    CHECK(third.learn(gone).news == InvalidatedPaths::News::Invalidated);
    CHECK(third.learn(back).news == InvalidatedPaths::News::Returned);
    invalidate(third, "/a/b");
    invalidate(other, "/a/c");
    std::string refreshed = other.readmission("/a");
    CHECK(third.learn(other.invalidation("/a/c", 0)).news == InvalidatedPaths::News::Invalidated);
    CHECK(third.learn(refreshed).news == InvalidatedPaths::News::Returned);
    CHECK_FALSE(third.contains("/a/b"));
    CHECK_FALSE(third.contains("/a/c"));
}

TEST_CASE("other names of a file are out as long as the name that was changed") {
    InvalidatedPaths invalidated;
    CHECK(invalidated.learn(invalidated.invalidation("/a/b", 7)).news ==
          InvalidatedPaths::News::Invalidated);
    CHECK(invalidated.learn(invalidated.invalidation("/a/c", 7)).news ==
          InvalidatedPaths::News::Invalidated);
    CHECK(invalidated.contains(7));
    CHECK_FALSE(invalidated.contains(8));
    CHECK_FALSE(invalidated.contains(0));
    return_to(invalidated, "/a/b");
    CHECK(invalidated.contains(7));
    return_to(invalidated, "/a");
    CHECK_FALSE(invalidated.contains(7));
}

TEST_CASE("nonsense says nothing of paths, and is not kept") {
    InvalidatedPaths invalidated;
    std::string path = std::string("/a") + '\0';
    for (const std::string& text :
         {std::string("name"), std::string("/a"), path, path + "left", path + "left12345678",
          path + "gone1234567887654321", path + "left1234567887654321x"}) {
        auto learnt = invalidated.learn(text);
        CHECK(learnt.news == InvalidatedPaths::News::Nothing);
        CHECK(learnt.forgotten == std::vector{text});
    }
    CHECK_FALSE(invalidated.contains("/a"));
}

TEST_CASE("of an invalidation and a return with one number the former counts, in any order") {
    InvalidatedPaths one, other;
    invalidate(one, "/b");
    std::string back = one.readmission("/b");  // with the number that both give to what is next
    invalidate(other, "/b");
    std::string gone = other.invalidation("/a", 0);
    for (auto& keys : {std::vector{gone, back}, std::vector{back, gone}}) {
        InvalidatedPaths both;
        // A return of all that lies above the path.
        std::string above = "/" + back.substr(std::string("/b").size());
        for (auto& key : keys) both.learn(key == back ? above : key);
        CHECK(both.contains("/a"));
        CHECK_FALSE(both.contains("/b"));
    }
}

TEST_CASE("what is refreshed needs no keys any more, nor what lies in an invalidated directory") {
    InvalidatedPaths invalidated;
    std::vector<std::string> lower;
    for (const char* path : {"/a/b", "/a/b/c", "/a/d"}) {
        lower.push_back(invalidated.invalidation(path, 0));
        CHECK(invalidated.learn(lower.back()).forgotten.empty());
    }
    std::string file = invalidated.invalidation("/a/b/e", 7),
                beside = invalidated.invalidation("/ab", 0);
    for (auto& key : {file, beside}) CHECK(invalidated.learn(key).forgotten.empty());
    std::string whole = invalidated.invalidation("/a", InvalidatedPaths::kWay);
    auto gone = invalidated.learn(whole).forgotten;
    std::ranges::sort(gone);
    std::ranges::sort(lower);
    CHECK(gone == lower);
    CHECK(invalidated.contains("/a/d"));
    CHECK(invalidated.contains(7));  // under its other names
    // They are not learnt again.
    CHECK(invalidated.learn(lower[0]).forgotten == std::vector{lower[0]});
    gone = invalidated.learn(invalidated.readmission("/a")).forgotten;
    std::ranges::sort(gone);
    std::vector both{file, whole};
    std::ranges::sort(both);
    CHECK(gone == both);
    CHECK_FALSE(invalidated.contains(7));
    // From somebody who does not know of the return: what was seen since it is looked at again.
    auto late = invalidated.learn(file);
    CHECK(late.news == InvalidatedPaths::News::Returned);
    CHECK(late.forgotten == std::vector{file});
    CHECK_FALSE(invalidated.contains("/a/b/e"));
    CHECK(invalidated.contains("/ab"));
}

TEST_CASE("members that forget keys agree with one that keeps all, in whatever order they hear") {
    const std::vector<std::string> paths{"/a", "/a/b", "/a/b/c", "/a/d", "/e"};
    std::mt19937 random(1);
    for (int round = 0; round < 300; ++round) {
        // Two that say things to each other now and then, so that some is said without knowledge.
        std::vector<InvalidatedPaths> makers(2);
        std::vector<std::string> keys;
        for (int i = 0; i < 12; ++i) {
            InvalidatedPaths& maker = makers[random() % 2];
            const std::string& path = paths[random() % paths.size()];
            constexpr std::uint64_t kInodes[] = {0, 7, 8, InvalidatedPaths::kWay};
            std::string key = random() % 3 == 0 ? maker.readmission(path)
                                                : maker.invalidation(path, kInodes[random() % 4]);
            if (key.empty()) continue;
            keys.push_back(key);
            maker.learn(key);
            if (random() % 2)
                for (auto& one : makers) one.learn(key);
        }
        // By the numbers alone.
        auto out = [&](const std::string& path) {
            std::uint64_t invalidated = 0, returned = 0;
            for (auto& key : keys) {
                std::string of = key.substr(0, key.find('\0'));
                if (path != of && !path.starts_with(of + "/")) continue;
                std::uint64_t number = 0;
                for (int i = 7; i >= 0; --i)
                    number =
                        number << 8 | static_cast<unsigned char>(
                                          key[of.size() + 1 + 4 + static_cast<std::size_t>(i)]);
                auto& most = key[of.size() + 1] == 'l' ? invalidated : returned;
                most = std::max(most, number);
            }
            return invalidated != 0 && invalidated >= returned;
        };
        std::vector<std::vector<std::string>> kept;
        for (int member = 0; member < 3; ++member) {
            InvalidatedPaths heard;
            std::vector<std::string> all;
            auto hear = [&](const std::string& key) {
                if (std::ranges::find(all, key) != all.end()) return;
                all.push_back(key);
                for (auto& gone : heard.learn(key).forgotten) std::erase(all, gone);
            };
            for (int again = 0; again < 2; ++again) {
                std::ranges::shuffle(keys, random);
                for (auto& key : keys) hear(key);
            }
            for (auto& path : paths) CHECK(heard.contains(path) == out(path));
            std::ranges::sort(all);
            kept.push_back(all);
        }
        CHECK(kept[0] == kept[1]);
        CHECK(kept[0] == kept[2]);
    }
}

TEST_CASE("any number of temporary files costs a directory no more than its own key") {
    Node node;
    TempDir root;
    std::filesystem::create_directory(root / "d");
    Files& files = node.agent().files();
    auto make_and_remove = [&](std::size_t number) {
        std::string path = root / ("d/" + std::to_string(number));
        files.invalidate(path);
        write_file(path, "for a while");
        files.invalidate(path);
        std::filesystem::remove(path);
    };
    for (std::size_t i = 0; i < InvalidatedPaths::kMostWithin; ++i) make_and_remove(i);
    CHECK(node.store().notice_digest().first == InvalidatedPaths::kMostWithin);
    CHECK_FALSE(files.invalidated().contains(root / "d"));
    for (std::size_t i = 0; i < 100; ++i) make_and_remove(InvalidatedPaths::kMostWithin + i);
    CHECK(files.invalidated().contains(root / "d"));
    CHECK_FALSE(files.invalidated().contains(root.path()));
    CHECK(node.store().notice_digest().first == 1);
    // Others may have heard nothing of it yet: they are told each time.
    CHECK(files.invalidate(root / "d/again").size() == 1);
    files.refresh({root.path()}, 1);
    CHECK_FALSE(files.invalidated().contains(root / "d"));
    CHECK(node.store().notice_digest().first == 2);  // the return, and the refresh
}

TEST_CASE("a file with other names is out by its inode, also where its directory is out") {
    Node node;
    TempDir root;
    Files& files = node.agent().files();
    std::filesystem::create_directories(root / "out/below");
    write_file(root / "out/below/file", "bytes");
    files.invalidate(root / "out");
    struct stat info{};
    REQUIRE(::stat((root / "out/below/file").c_str(), &info) == 0);
    files.invalidate(root / "out/below/file");
    CHECK_FALSE(files.invalidated().contains(info.st_ino));
    SUBCASE("by a hard link") {
        std::filesystem::create_hard_link(root / "out/below/file", root / "hard");
        files.invalidate(root / "out/below/file");
    }
    SUBCASE("by a link that is out itself") {
        std::filesystem::create_symlink("below/file", root / "out/link");
        files.invalidate(root / "out/link");
    }
    SUBCASE("by a link on the way") {
        std::filesystem::rename(root / "out/below", root / "elsewhere");
        std::filesystem::create_directory_symlink("../elsewhere", root / "out/below");
        files.invalidate(root / "out/below/file");
    }
    CHECK(files.invalidated().contains(info.st_ino));
}

TEST_CASE("what lies in an invalidated directory is out by its path, although its inode is not") {
    Node node;
    TempDir root;
    Files& files = node.agent().files();
    FileOrder order{root.path(), root / "d/file", Tier::Memory, 1, false, 1 << 30, 0};
    std::filesystem::create_directory(root / "d");
    write_file(order.path, "first");
    AgentClient remote(kKey);
    CHECK(*read(remote, node.tcp, order) == "first");
    REQUIRE(eventually([&] { return files.cached(order).has_value(); }));
    files.invalidate(root / "d");
    std::filesystem::rename(root / "d", root / "old");
    std::filesystem::create_directory(root / "d");
    write_file(order.path, "second");
    CHECK_FALSE(files.cached(order));
    auto got = read(remote, node.tcp, order);
    REQUIRE_FALSE(got.ok());
    CHECK(got.status().code() == Code::NotCached);
    files.refresh({root.path()}, 1);
    CHECK(*read(remote, node.tcp, order) == "second");
}

TEST_CASE("a change that its maker did not know to be after a refresh is heard all the same") {
    Node node, other;
    agree({&node, &other});
    TempDir root;
    Files &files = node.agent().files(), &others = other.agent().files();
    FileOrder order{root.path(), root / "file", Tier::Memory, 1, false, 1 << 30, 0};
    order.path = key_of({&node}, "@file" + order.path).substr(5);
    write_file(order.path, "first");
    for (int i = 0; i < 3; ++i)
        files.invalidate(root / std::to_string(i));  // numbers that go ahead
    files.refresh({root.path()}, 1);
    AgentClient remote(kKey);
    CHECK(*read(remote, node.tcp, order) == "first");
    SUBCASE("when it is told") {
        InvalidateMessage message{order.path, ""};
        Question question{.op = Op::Invalidate, .meta = message.encode()};
        CHECK(remote.connections().ask(other.local, question, kDeadline).ok());
        for (Files* one : {&files, &others}) CHECK(one->invalidated().contains(order.path));
        // Nor does the refresh undo it when the other hears of it.
        for (auto& encoded : all_notices(node.store()))
            other.store().learn({*Notice::decode(encoded)});
        CHECK(others.invalidated().contains(order.path));
    }
    SUBCASE("when it could not be told, and is heard of later") {
        auto notices = others.invalidate(order.path);
        write_file(order.path, "second");
        files.learn(notices);
    }
    write_file(order.path, "second");
    auto got = read(remote, node.tcp, order);
    CHECK((!got.ok() || *got == "second"));
}

TEST_CASE("a link or a directory is out as a way to other names, whatever inode it has") {
    InvalidatedPaths invalidated;
    CHECK(invalidated.empty());
    CHECK(invalidated.learn(invalidated.invalidation("/a", InvalidatedPaths::kWay)).news ==
          InvalidatedPaths::News::WayInvalidated);
    CHECK_FALSE(invalidated.empty());
    CHECK(invalidated.contains("/a/b"));
    CHECK_FALSE(invalidated.contains(InvalidatedPaths::kWay));
}
