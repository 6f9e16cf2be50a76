// A Writer: all or nothing.
#include "store/writer.hpp"

#include "support.hpp"

using namespace holdfast;
using namespace holdfast::test;

namespace {

bool untouched(StoreDir& place) {
    for (Tier tier : {Tier::Memory, Tier::Disk}) {
        Usage usage = place.store->usage(tier);
        if (usage.objects + usage.bytes + usage.occupied + usage.reserved != 0) return false;
        if (files_in(place.tier(tier)) != 0) return false;
    }
    return place.store->list("", "", 10).empty();
}

}  // namespace

TEST_CASE("a writer that is given up leaves nothing") {
    StoreDir place;
    std::string bytes = random_bytes(200'000, 1);
    for (Tier tier : {Tier::Memory, Tier::Disk}) {
        for (std::size_t size : {std::size_t{100}, bytes.size()}) {
            auto writer = place.store->create({.key = "key", .size = size, .tier = tier});
            REQUIRE(writer.ok());
            CHECK(place.store->usage(tier).reserved >= size);
            CHECK(place.store->find("key") == nullptr);
            CHECK(writer->append(bytes.data(), size / 2).ok());
            Writer moved(std::move(*writer));  // the one moved from must not clean up
            CHECK(moved.append(bytes.data(), 1).ok());
        }
    }
    CHECK(untouched(place));
    CHECK(put(*place.store, "key", bytes).ok());  // the key is free again
}

TEST_CASE("a commit with too few bytes or a wrong checksum stores nothing") {
    StoreDir place;
    std::string bytes = random_bytes(100'000, 2);
    {
        auto writer = place.store->create({.key = "key", .size = bytes.size()});
        REQUIRE(writer.ok());
        CHECK(writer->append(bytes.data(), bytes.size() - 1).ok());
        CHECK(writer->append("too many", 8).code() == Code::BadInput);
        CHECK(writer->commit(0).status().code() == Code::Damaged);
        CHECK(writer->commit(writer->crc()).status().code() == Code::Damaged);
        CHECK(writer->append(bytes.data() + bytes.size() - 1, 1).ok());
        CHECK(writer->commit(1234).status().code() == Code::Damaged);
    }
    CHECK(untouched(place));
}

TEST_CASE("checksums do not depend on the pieces in which bytes came") {
    StoreDir place;
    std::string bytes = random_bytes(3 * kChunk + 17, 3);
    std::uint32_t crc = crc32c(0, bytes.data(), bytes.size());
    int number = 0;
    for (std::size_t piece : {std::size_t{1000}, std::size_t{kChunk}, std::size_t{kChunk + 1}}) {
        std::string key = "key" + std::to_string(number++);
        auto writer = place.store->create({.key = key, .size = bytes.size()});
        REQUIRE(writer.ok());
        for (std::size_t at = 0; at < bytes.size(); at += piece)
            CHECK(writer->append(bytes.data() + at, std::min(piece, bytes.size() - at)).ok());
        CHECK(writer->crc() == crc);
        auto object = writer->commit(crc);
        REQUIRE(object.ok());
        CHECK((*object)->chunks.size() == 4);
        CHECK((*object)->chunks[3] == crc32c(0, bytes.data() + 3 * kChunk, 17));
        CHECK(contents(*place.store, key) == bytes);
        CHECK(place.store->verify(*object).ok());
    }
}

TEST_CASE("an object of no bytes is an object") {
    StoreDir place;
    for (bool source : {false, true}) {
        std::string key = source ? "a" : "b";
        CHECK(put_as(*place.store, {.key = key, .has_source = source}, "").ok());
        CHECK(contents(*place.store, key) == "");
        CHECK(place.store->verify(place.store->find(key)).ok());
    }
}
