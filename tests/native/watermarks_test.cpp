// Rule 9, versions that were dropped all at once.
#include "store/watermarks.hpp"

#include <algorithm>
#include <random>

#include "store/object_index.hpp"
#include "support.hpp"

using namespace holdfast;
using namespace holdfast::test;

namespace {

Notice notice(const std::string& prefix, std::uint64_t version) {
    return {Topic::Watermark, Watermark{prefix, version}.encode()};
}

void store(ObjectIndex& index, const std::string& key) {
    auto object = std::make_shared<Object>();
    object->key = key;
    REQUIRE(index.reserve(key, 0).ok());
    REQUIRE(index.publish(object).ok());
}

}  // namespace

TEST_CASE("rule 9: a watermark drops the versions below it and nothing else") {
    Watermark mark{"run/T/", 12};
    for (std::string key : {"run/T/11", "run/T/0", "run/T/0003/block", "run/T/11/", "run/T/7/8/9"})
        CHECK(mark.covers(key));
    for (std::string key :
         {"run/T/12", "run/T/12/block", "run/T/100", "run/T/x", "run/T/", "run/T", "run/T/11x",
          "run/T/11.npy", "run/T/-1", "run/T/+1", "run/T/ 1", "run/S/1", "other/run/T/1",
          "run/T/18446744073709551616", "run/T/99999999999999999999999"})
        CHECK_FALSE(mark.covers(key));
    Watermarks marks;
    CHECK(marks.over("run/T/11") == nullptr);
    marks.raise(mark);
    marks.raise({"frame-", 3});
    CHECK(marks.over("run/T/11")->prefix == "run/T/");
    CHECK(marks.over("frame-2")->version == 3);
    CHECK(marks.over("run/T/12/frame-2") == nullptr);
    CHECK(marks.over("frame-") == nullptr);
    CHECK(marks.over("") == nullptr);
    for (std::string prefix : {"", "run/T/1", "7"}) {
        CHECK(Watermark{prefix, 5}.check().code() == Code::BadInput);
        CHECK_FALSE(Watermark::decode(Watermark{prefix, 5}.encode()));
    }
    CHECK_FALSE(Watermark::decode("short"));
    CHECK(Watermark{std::string(kMaxKey + 1, 'x'), 5}.check().code() == Code::BadInput);
}

TEST_CASE("rule 9: members that forget watermarks agree with one that keeps all, in any order") {
    std::mt19937_64 random(7);
    std::vector<std::string> prefixes = {"a/", "b/", "a/1/", "a/1/x", "a/3/", "a/3/4/", "b/2/c/"};
    for (int round = 0; round < 200; ++round) {
        std::vector<Watermark> all;
        for (int i = 0; i < 12; ++i) all.push_back({prefixes[random() % 7], random() % 6});
        std::uint64_t digest = 0, count = 0;
        for (int order = 0; order < 4; ++order) {
            std::ranges::shuffle(all, random);
            ObjectIndex index;
            for (auto& mark : all) index.learn(notice(mark.prefix, mark.version));
            if (order == 0) digest = index.notices().digest(), count = index.notices().count();
            CHECK(index.notices().digest() == digest);
            CHECK(index.notices().count() == count);
            for (std::string key : {"a/0", "a/1/2", "a/1/x3", "a/3/1/y", "a/3/4/2", "b/2/c/1",
                                    "b/5", "a/5/1", "b/2/d/0"}) {
                bool dropped = std::ranges::any_of(
                    all, [&](const Watermark& mark) { return mark.covers(key); });
                CHECK((index.absent(key).code() == Code::Dropped) == dropped);
            }
        }
    }
}

TEST_CASE("rule 9: a watermark removes what lies below it, and covers its tombstones") {
    ObjectIndex index;
    for (int version = 0; version < 50; ++version)
        for (std::string block : {"a", "b"})
            store(index, "T/" + std::to_string(version) + "/" + block);
    store(index, "T/notes");
    store(index, "U/1");
    auto bad = index.find("T/2/a");
    REQUIRE(index.lose(bad));
    REQUIRE(index.learn({Topic::Tombstone, "T/3/gone"}));
    REQUIRE(index.learn({Topic::Tombstone, "T/30/gone"}));
    REQUIRE(index.reserve("T/4/open", 0).ok());
    ObjectIndex::Sweep sweep{notice("T/", 20)};
    REQUIRE(index.learn(sweep.notice));
    while (!index.sweep(sweep, 7)) continue;
    CHECK(sweep.gone.size() == 39);
    CHECK(index.list("T/", "", 1000).size() == 61);
    CHECK(index.find("U/1"));
    CHECK(index.lost_bytes() == 0);
    CHECK(index.notices().count() == 2);  // itself, and the tombstone above it
    CHECK(index.absent("T/3/gone").code() == Code::Dropped);
    CHECK(index.absent("T/2/a").code() == Code::Dropped);
    auto open = std::make_shared<Object>();
    open->key = "T/4/open";
    CHECK(index.publish(open).code() == Code::KeyExists);
    CHECK(index.reserve("T/19", 0).status().code() == Code::KeyExists);
    CHECK(index.reserve("T/20", 0).ok());
    // What says no more than that is not new.
    CHECK_FALSE(index.learn({Topic::Tombstone, "T/3/gone"}));
    CHECK_FALSE(index.learn(notice("T/", 19)));
    CHECK_FALSE(index.learn(notice("T/7/", 100)));
    CHECK(index.learn(notice("T/", 21)));
    CHECK(index.notices().count() == 2);
}

TEST_CASE("rule 9: a watermark gives files and room back, and lets no writer in") {
    StoreDir place;
    std::string bytes = random_bytes(100'000, 1);
    for (int version = 0; version < 5; ++version) {
        REQUIRE(put(*place.store, "T/" + std::to_string(version), bytes).ok());
        REQUIRE(put_as(*place.store,
                       {.key = "T/" + std::to_string(version) + "/d", .tier = Tier::Disk}, bytes)
                    .ok());
    }
    auto writer = place.store->create({.key = "T/1/late", .size = 5});
    REQUIRE(writer.ok());
    CHECK(writer->append("bytes", 5).ok());
    CHECK(place.store->learn({notice("T/", 4)}) == 1);
    Status late = writer->commit(crc32c(0, "bytes", 5)).status();
    CHECK(late.code() == Code::KeyExists);
    CHECK(late.message().find("below 4") != std::string::npos);
    CHECK(files_in(place.tier(Tier::Memory)) == 1);
    CHECK(files_in(place.tier(Tier::Disk)) == 1);
    CHECK(place.store->usage(Tier::Memory).objects == 1);
    CHECK(place.store->counters().dropped == 8);
    CHECK(contents(*place.store, "T/4") == bytes);
    CHECK(place.store->learn({notice("T/", 4)}) == 0);
}

TEST_CASE("rule 9: an agent takes a watermark from clients, and nonsense from nobody") {
    Node node;
    AgentClient remote(kKey);
    for (int version = 0; version < 5; ++version)
        REQUIRE(put(remote, {&node}, "T/" + std::to_string(version), "x").ok());
    CHECK(remote.drop_below(node.tcp, {"T/", 3}, kDeadline).ok());
    CHECK(node.store().list("", "", 10).size() == 2);
    for (std::string prefix : {"", "T/1", "@file/a/"})
        CHECK(remote.drop_below(node.tcp, {prefix, 3}, kDeadline).code() == Code::BadInput);
    Question nonsense{.op = Op::DropBelow, .meta = "x"};
    CHECK(remote.connections().ask(node.tcp, nonsense, kDeadline).status().code() ==
          Code::BadInput);
    CHECK(node.store().notice_digest().first == 1);
}
