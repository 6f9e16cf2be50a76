// Paths that left the cache, and how they return.
#include "files/excluded.hpp"

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

void leave(Excluded& one, const std::string& path) {
    CHECK(one.learn(one.leaving(path, 0)).news == Excluded::News::Left);
}

void return_to(Excluded& one, const std::string& path) {
    CHECK(one.learn(one.returning(path)).news == Excluded::News::Returned);
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
    CHECK(one.learn(back).news == Excluded::News::Returned);
    CHECK(other.learn(back).news == Excluded::News::Returned);
    CHECK(other.learn(left).news == Excluded::News::Returned);
    CHECK_FALSE(one.contains("/a"));
    CHECK_FALSE(other.contains("/a"));
    // At the same time, without knowledge of each other: a change and a refresh from above.
    Excluded third;
    CHECK(third.learn(left).news == Excluded::News::Left);
    CHECK(third.learn(back).news == Excluded::News::Returned);
    leave(third, "/a/b");
    leave(other, "/a/c");
    std::string refreshed = other.returning("/a");
    CHECK(third.learn(other.leaving("/a/c", 0)).news == Excluded::News::Left);
    CHECK(third.learn(refreshed).news == Excluded::News::Returned);
    CHECK_FALSE(third.contains("/a/b"));
    CHECK_FALSE(third.contains("/a/c"));
}

TEST_CASE("other names of a file are out as long as the name that was changed") {
    Excluded excluded;
    CHECK(excluded.learn(excluded.leaving("/a/b", 7)).news == Excluded::News::Left);
    CHECK(excluded.learn(excluded.leaving("/a/c", 7)).news == Excluded::News::Left);
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
        CHECK(excluded.learn(key).news == Excluded::News::Nothing);
    CHECK_FALSE(excluded.contains("/a"));
}

TEST_CASE("of a leave and a return with one number the leave counts, whichever is heard first") {
    Excluded one, other;
    leave(one, "/b");
    std::string back = one.returning("/b");  // with the number that both give to what is next
    leave(other, "/b");
    std::string left = other.leaving("/a", 0);
    for (auto& keys : {std::vector{left, back}, std::vector{back, left}}) {
        Excluded both;
        // A return of all that lies above the path.
        std::string above = file_prefix("/") + back.substr(file_prefix("/b").size());
        for (auto& key : keys) both.learn(key == back ? above : key);
        CHECK(both.contains("/a"));
        CHECK_FALSE(both.contains("/b"));
    }
}

TEST_CASE("what is refreshed needs no keys any more, nor what lies in a directory that left") {
    Excluded excluded;
    std::vector<std::string> lower;
    for (const char* path : {"/a/b", "/a/b/c", "/a/d"}) {
        lower.push_back(excluded.leaving(path, 0));
        CHECK(excluded.learn(lower.back()).forgotten.empty());
    }
    std::string file = excluded.leaving("/a/b/e", 7), beside = excluded.leaving("/ab", 0);
    for (auto& key : {file, beside}) CHECK(excluded.learn(key).forgotten.empty());
    std::string whole = excluded.leaving("/a", Excluded::kWay);
    auto gone = excluded.learn(whole).forgotten;
    std::ranges::sort(gone);
    std::ranges::sort(lower);
    CHECK(gone == lower);
    CHECK(excluded.contains("/a/d"));
    CHECK(excluded.contains(7));  // under its other names
    // They are not learnt again.
    CHECK(excluded.learn(lower[0]).forgotten == std::vector{lower[0]});
    gone = excluded.learn(excluded.returning("/a")).forgotten;
    std::ranges::sort(gone);
    std::vector both{file, whole};
    std::ranges::sort(both);
    CHECK(gone == both);
    CHECK_FALSE(excluded.contains(7));
    // From somebody who does not know of the return: what was seen since it is looked at again.
    auto late = excluded.learn(file);
    CHECK(late.news == Excluded::News::Returned);
    CHECK(late.forgotten == std::vector{file});
    CHECK_FALSE(excluded.contains("/a/b/e"));
    CHECK(excluded.contains("/ab"));
}

TEST_CASE("members that forget keys agree with one that keeps all, in whatever order they hear") {
    const std::vector<std::string> paths{"/a", "/a/b", "/a/b/c", "/a/d", "/e"};
    std::mt19937 random(1);
    for (int round = 0; round < 300; ++round) {
        // Two that say things to each other now and then, so that some is said without knowledge.
        std::vector<Excluded> makers(2);
        std::vector<std::string> keys;
        for (int i = 0; i < 12; ++i) {
            Excluded& maker = makers[random() % 2];
            const std::string& path = paths[random() % paths.size()];
            constexpr std::uint64_t kInodes[] = {0, 7, 8, Excluded::kWay};
            std::string key = random() % 3 == 0 ? maker.returning(path)
                                                : maker.leaving(path, kInodes[random() % 4]);
            if (key.empty()) continue;
            keys.push_back(key);
            maker.learn(key);
            if (random() % 2)
                for (auto& one : makers) one.learn(key);
        }
        // By the numbers alone.
        auto out = [&](const std::string& path) {
            std::uint64_t left = 0, returned = 0;
            for (auto& key : keys) {
                std::string of = key.substr(5, key.find('\0') - 5);
                if (path != of && !path.starts_with(of + "/")) continue;
                std::uint64_t number = 0;
                for (int i = 7; i >= 0; --i)
                    number = number << 8 |
                             static_cast<unsigned char>(
                                 key[file_prefix(of).size() + 4 + static_cast<std::size_t>(i)]);
                auto& most = key[file_prefix(of).size()] == 'l' ? left : returned;
                most = std::max(most, number);
            }
            return left != 0 && left >= returned;
        };
        std::vector<std::vector<std::string>> kept;
        for (int member = 0; member < 3; ++member) {
            Excluded heard;
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
        files.leave(path);
        write_file(path, "for a while");
        files.leave(path);
        std::filesystem::remove(path);
    };
    for (std::size_t i = 0; i < Excluded::kMostWithin; ++i) make_and_remove(i);
    CHECK(node.store().dropped_digest().first == Excluded::kMostWithin);
    CHECK_FALSE(files.excluded().contains(root / "d"));
    for (std::size_t i = 0; i < 100; ++i) make_and_remove(Excluded::kMostWithin + i);
    CHECK(files.excluded().contains(root / "d"));
    CHECK_FALSE(files.excluded().contains(root.path()));
    CHECK(node.store().dropped_digest().first == 1);
    // Others may have heard nothing of it yet: they are told each time.
    CHECK(files.leave(root / "d/again").size() == 1);
    files.refresh({root.path()}, 1);
    CHECK_FALSE(files.excluded().contains(root / "d"));
    CHECK(node.store().dropped_digest().first == 2);  // the return, and the refresh
}

TEST_CASE("a file with other names leaves by its inode, also where its directory is out") {
    Node node;
    TempDir root;
    Files& files = node.agent().files();
    std::filesystem::create_directories(root / "out/below");
    write_file(root / "out/below/file", "bytes");
    files.leave(root / "out");
    struct stat info{};
    REQUIRE(::stat((root / "out/below/file").c_str(), &info) == 0);
    files.leave(root / "out/below/file");
    CHECK_FALSE(files.excluded().contains(info.st_ino));
    SUBCASE("by a hard link") {
        std::filesystem::create_hard_link(root / "out/below/file", root / "hard");
        files.leave(root / "out/below/file");
    }
    SUBCASE("by a link that is out itself") {
        std::filesystem::create_symlink("below/file", root / "out/link");
        files.leave(root / "out/link");
    }
    SUBCASE("by a link on the way") {
        std::filesystem::rename(root / "out/below", root / "elsewhere");
        std::filesystem::create_directory_symlink("../elsewhere", root / "out/below");
        files.leave(root / "out/below/file");
    }
    CHECK(files.excluded().contains(info.st_ino));
}

TEST_CASE("a change that its maker did not know to be after a refresh is heard all the same") {
    Node node, other;
    agree({&node, &other});
    TempDir root;
    Files &files = node.agent().files(), &others = other.agent().files();
    FileOrder order{root.path(), root / "file", Tier::Memory, 1, false, 1 << 30, 0};
    order.path = key_of({&node}, "@file" + order.path).substr(5);
    write_file(order.path, "first");
    for (int i = 0; i < 3; ++i) files.leave(root / std::to_string(i));  // numbers that go ahead
    files.refresh({root.path()}, 1);
    AgentClient remote(kKey);
    CHECK(*read(remote, node.tcp, order) == "first");
    SUBCASE("when it is told") {
        LeaveMessage message{order.path, ""};
        Question question{.op = Op::Leave, .meta = message.encode()};
        CHECK(remote.client().ask(other.local, question, kDeadline).ok());
        for (Files* one : {&files, &others}) CHECK(one->excluded().contains(order.path));
        // Nor does the refresh undo it when the other hears of it.
        std::vector<std::uint32_t> all(DroppedKeys::kBuckets);
        std::iota(all.begin(), all.end(), 0u);
        other.store().bury(node.store().dropped_in(all));
        CHECK(others.excluded().contains(order.path));
    }
    SUBCASE("when it could not be told, and is heard of later") {
        auto keys = others.leave(order.path);
        write_file(order.path, "second");
        node.store().bury(keys);
    }
    write_file(order.path, "second");
    auto got = read(remote, node.tcp, order);
    CHECK((!got.ok() || *got == "second"));
}

TEST_CASE("a link or a directory leaves as a way to other names, whatever inode it has") {
    Excluded excluded;
    CHECK(excluded.empty());
    CHECK(excluded.learn(excluded.leaving("/a", Excluded::kWay)).news == Excluded::News::WayLeft);
    CHECK_FALSE(excluded.empty());
    CHECK(excluded.contains("/a/b"));
    CHECK_FALSE(excluded.contains(Excluded::kWay));
}
