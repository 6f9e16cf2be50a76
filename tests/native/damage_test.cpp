// Storage that fails underneath the store: what is bad is found, counts as lost, is never served.
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/scrub.hpp"
#include "support.hpp"

using namespace holdfast;
using namespace holdfast::test;

namespace {

std::string path_of(StoreDir& place, const std::string& key) {
    ObjectPtr object = place.store->find(key);
    REQUIRE(object);
    return place.tier(object->tier) + "/" + object->name;
}

// Changes one byte in a file that nobody may write.
void flip(const std::string& path, off_t at) {
    REQUIRE(::chmod(path.c_str(), 0600) == 0);
    Fd file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    char byte;
    REQUIRE(::pread(file.get(), &byte, 1, at) == 1);
    byte = static_cast<char>(byte ^ 1);
    REQUIRE(::pwrite(file.get(), &byte, 1, at) == 1);
}

// Bytes of the size that a directory has, so that one can stand in for the file of an object: it
// opens, and no byte of it can be read.
std::string unreadable_size(StoreDir& place) {
    struct stat info{};
    std::string probe = place.tier(Tier::Disk) + "/probe";
    REQUIRE(::mkdir(probe.c_str(), 0700) == 0);
    REQUIRE(::stat(probe.c_str(), &info) == 0);
    REQUIRE(::rmdir(probe.c_str()) == 0);
    return random_bytes(static_cast<std::size_t>(info.st_size), 1);
}

void make_unreadable(StoreDir& place, const std::string& key) {
    std::string path = path_of(place, key);
    REQUIRE(::unlink(path.c_str()) == 0);
    REQUIRE(::mkdir(path.c_str(), 0700) == 0);
}

}  // namespace

TEST_CASE("a header that went bad in memory is served to nobody") {
    Node node;
    AgentClient remote(kKey);
    std::string bytes = random_bytes(1000, 1);
    auto spoil = [&](const std::string& key) {
        Store::NewObject wanted{.key = key};
        wanted.header = ObjectHeader::of("header");
        REQUIRE(put_as(node.store(), wanted, bytes).ok());
        const_cast<Object&>(*node.store().find(key)).header.bytes[1] ^= 1;
        return wanted;
    };
    spoil("stat");
    CHECK(remote.stat(node.tcp, "stat", kDeadline).status().code() == Code::Damaged);
    CHECK(remote.verify(node.tcp, "stat", kDeadline).status().code() == Code::Damaged);
    CHECK(remote.stat(node.tcp, "stat", kDeadline).status().message().find("has been dropped") !=
          std::string::npos);
    spoil("list");
    REQUIRE(put(node.store(), "list/sound", bytes).ok());
    auto page = remote.list(node.tcp, {"list", ""}, kDeadline);
    REQUIRE(page.ok());
    CHECK(page->objects.size() == 1);
    CHECK_FALSE(page->more);
    CHECK(node.store().absent("list").code() == Code::Damaged);
    {
        spoil("scrub");
        Scrub scrub(node.store(), 1 << 30);
        CHECK(eventually([&] { return !node.store().find("scrub"); }));
    }
    // Nobody is turned away for its sake.
    auto wanted = spoil("again");
    CHECK(put_as(node.store(), wanted, bytes).status().code() == Code::Damaged);
    CHECK(put_as(node.store(), wanted, bytes).ok());
}

TEST_CASE("a disk that keeps failing is given up with all that is on it") {
    StoreDir place;
    Store& store = *place.store;
    std::string bytes = unreadable_size(place);
    for (std::string key : {"a", "b", "c", "d", "e"})
        REQUIRE(put_as(store, {.key = key, .tier = Tier::Disk, .copies = 2}, bytes).ok());
    REQUIRE(put_as(store, {.key = "file", .tier = Tier::Disk, .has_source = true}, bytes).ok());
    REQUIRE(put(store, "kept", bytes).ok());
    auto late = store.create({.key = "late", .size = bytes.size(), .tier = Tier::Disk});
    REQUIRE(late.ok());
    std::string sound = path_of(place, "d");

    for (std::string key : {"a", "b"}) {
        make_unreadable(place, key);
        ObjectPtr object = store.find(key);
        CHECK(store.open_file(object).status().code() == Code::Damaged);
        store.unreadable(object, EIO);  // others who met the same, which counts once
    }
    CHECK(!store.usage(Tier::Disk).condemned);
    CHECK(contents(store, "d") == bytes);
    make_unreadable(place, "c");
    CHECK(store.verify(store.find("c")).code() == Code::Damaged);

    CHECK(store.usage(Tier::Disk).condemned);
    CHECK(store.usage(Tier::Disk).objects == 0);
    CHECK(store.usage(Tier::Disk).occupied == 0);
    CHECK(store.usage(Tier::Disk).capacity == 0);
    for (std::string key : {"a", "b", "c", "d", "e"}) {
        CHECK(store.find(key) == nullptr);
        CHECK(store.held(key) == std::nullopt);
        CHECK(store.absent(key).code() == Code::Damaged);
    }
    CHECK(store.absent("file").code() == Code::NotFound);
    CHECK(::access(sound.c_str(), F_OK) != 0);
    CHECK(contents(store, "kept") == bytes);

    REQUIRE(late->append(bytes.data(), bytes.size()).ok());
    CHECK(late->commit(late->crc()).status().code() == Code::Busy);
    auto again = put_as(store, {.key = "d", .tier = Tier::Disk, .copies = 2}, bytes);
    REQUIRE(again.ok());
    CHECK((*again)->tier == Tier::Memory);
    CHECK(store.held("d")->tier == Tier::Disk);  // others keep it where its writer wanted it
    CHECK(contents(store, "d") == bytes);
    CHECK(store.capacity(Tier::Disk) == store.capacity(Tier::Memory));
    // Nor do files go there for which memory has no room.
    CHECK(store.set_aside(store.capacity(Tier::Memory)).status().code() == Code::Full);
    CHECK(store.room_for_file(Tier::Memory, store.capacity(Tier::Memory)).code() == Code::Full);
}

TEST_CASE("an error that is none of the medium's loses nothing") {
    StoreDir place;
    std::string bytes = random_bytes(300'000, 1);
    REQUIRE(put_as(*place.store, {.key = "key", .tier = Tier::Disk}, bytes).ok());
    for (int error : {ENOMEM, EINTR, EMFILE})
        for (int i = 0; i < 3; ++i) place.store->unreadable(place.store->find("key"), error);
    CHECK(contents(*place.store, "key") == bytes);
    CHECK(!place.store->usage(Tier::Disk).condemned);
}

TEST_CASE("whoever opens copies by name is told when one is given up") {
    StoreDir place;
    int told = 0;
    place.store->watch_lost([&] { ++told; });
    std::string bytes = random_bytes(300'000, 1);
    REQUIRE(put_as(*place.store, {.key = "key", .tier = Tier::Disk}, bytes).ok());
    CHECK(told == 0);
    flip(path_of(place, "key"), 250'000);
    CHECK(place.store->verify(place.store->find("key")).code() == Code::Damaged);
    CHECK(told == 1);
}

TEST_CASE("nothing spills to a disk that had no room a moment ago") {
    StoreDir place(1 << 20, 64 << 20);
    auto spilled = place.store->set_aside(2 << 20);
    REQUIRE(spilled.ok());
    CHECK(*spilled == Tier::Disk);
    place.store->give_back(*spilled, 2 << 20);
    CHECK(!place.store->write_failed(Tier::Disk, ENOSPC));
    CHECK(place.store->set_aside(2 << 20).status().code() == Code::Full);
    CHECK(!place.store->usage(Tier::Disk).condemned);
}

TEST_CASE("verify finds a changed byte, and the object is lost") {
    for (Tier tier : {Tier::Memory, Tier::Disk}) {
        StoreDir place;
        std::string bytes = random_bytes(300'000, 1);
        REQUIRE(put_as(*place.store, {.key = "key", .tier = tier}, bytes).ok());
        CHECK(place.store->verify(place.store->find("key")).ok());
        flip(path_of(place, "key"), 250'000);
        CHECK(place.store->verify(place.store->find("key")).code() == Code::Damaged);
        CHECK(place.store->find("key") == nullptr);
        CHECK(place.store->counters().damaged == 1);
        CHECK(files_in(place.tier(tier)) == 0);
        CHECK(place.store->usage(tier).bytes + place.store->usage(tier).reserved == 0);
        CHECK(put_as(*place.store, {.key = "key", .tier = tier}, bytes).ok());
        CHECK(contents(*place.store, "key") == bytes);
    }
}

TEST_CASE("verify finds a changed byte in the heap, and the object is lost") {
    StoreDir place;
    std::string bytes = random_bytes(1000, 1);
    REQUIRE(put(*place.store, "key", bytes).ok());
    ObjectPtr object = place.store->find("key");
    REQUIRE(object->in_heap);
    CHECK(place.store->verify(object).ok());
    const_cast<char&>(object->bytes[500]) ^= 1;  // as a bad module would
    CHECK(place.store->verify(object).code() == Code::Damaged);
    CHECK(place.store->find("key") == nullptr);
    CHECK(place.store->absent("key").code() == Code::Damaged);
}

TEST_CASE("rule 7: of an object whose copy went bad nobody says that it never was") {
    StoreDir place;
    std::string bytes = random_bytes(100'000, 1);
    for (std::string key : {"kept", "cached", "dropped", "pulled"})
        REQUIRE(put_as(*place.store, {.key = key, .has_source = key == "cached"}, bytes).ok());
    Usage before = place.store->usage(Tier::Memory);
    for (std::string key : {"kept", "cached", "dropped", "pulled"}) {
        flip(path_of(place, key), 5);
        CHECK(place.store->verify(place.store->find(key)).code() == Code::Damaged);
    }
    CHECK(place.store->absent("kept").code() == Code::Damaged);
    CHECK(place.store->absent("cached").code() == Code::NotFound);  // its source has it
    place.store->drop("dropped");
    CHECK(place.store->absent("dropped").code() == Code::Dropped);
    REQUIRE(put(*place.store, "pulled", bytes).ok());
    REQUIRE(put(*place.store, "kept", bytes).ok());
    REQUIRE(put_as(*place.store, {.key = "cached", .has_source = true}, bytes).ok());
    REQUIRE(put(*place.store, "fourth", bytes).ok());
    // What was remembered of losses is no longer counted, and a tombstone never is.
    CHECK(place.store->usage(Tier::Memory).occupied == before.occupied);
}

TEST_CASE("a scrub finds what went bad by itself") {
    StoreDir place;
    for (int i = 0; i < 100; ++i)
        REQUIRE(put(*place.store, "key" + std::to_string(i), random_bytes(70'000, 1)).ok());
    flip(path_of(place, "key77"), 69'999);
    {
        Scrub scrub(*place.store, 1 << 30);
        CHECK(eventually([&] { return place.store->counters().damaged > 0; }));
    }
    CHECK(place.store->find("key77") == nullptr);
    CHECK(place.store->usage(Tier::Memory).objects == 99);
}

TEST_CASE("a file that is cut short or gone counts as lost") {
    StoreDir place;
    std::string bytes = random_bytes(100'000, 1);
    REQUIRE(put(*place.store, "cut", bytes).ok());
    REQUIRE(put(*place.store, "gone", bytes).ok());
    REQUIRE(::chmod(path_of(place, "cut").c_str(), 0600) == 0);
    REQUIRE(::truncate(path_of(place, "cut").c_str(), 99'999) == 0);
    REQUIRE(::unlink(path_of(place, "gone").c_str()) == 0);
    for (std::string key : {"cut", "gone"}) {
        auto file = place.store->open_file(place.store->find(key));
        CHECK(file.status().code() == Code::Damaged);
        CHECK(place.store->find(key) == nullptr);
        CHECK(put(*place.store, key, bytes).ok());
    }
    CHECK(place.store->counters().damaged == 2);
}

TEST_CASE("nobody is refused a key for the sake of a copy that went bad") {
    StoreDir place;
    std::string bytes = random_bytes(100'000, 1);
    REQUIRE(put(*place.store, "key", bytes).ok());
    flip(path_of(place, "key"), 5);
    CHECK(put(*place.store, "key", bytes).status().code() == Code::Damaged);  // says: put it again
    CHECK(put(*place.store, "key", bytes).ok());
    CHECK(contents(*place.store, "key") == bytes);
}

TEST_CASE("a tier removed while gives clear errors, and the other goes on") {
    StoreDir place(64 << 20, 64 << 20, false);  // huge pages have no name to be removed by
    std::string bytes = random_bytes(100'000, 1);
    REQUIRE(put(*place.store, "key", bytes).ok());
    auto writer = place.store->create({.key = "half", .size = bytes.size()});
    REQUIRE(writer.ok());
    REQUIRE(writer->append(bytes.data(), bytes.size()).ok());
    std::filesystem::remove_all(place.tier(Tier::Memory));
    auto object = writer->commit(crc32c(0, bytes.data(), bytes.size()));
    CHECK(object.status().code() == Code::Damaged);
    CHECK(object.status().message().find("removed while") != std::string::npos);
    CHECK(put(*place.store, "new", bytes).status().code() == Code::Damaged);
    CHECK(place.store->open_file(place.store->find("key")).status().code() == Code::Damaged);
    CHECK(place.store->find("key") == nullptr);
    CHECK(put_as(*place.store, {.key = "key", .tier = Tier::Disk}, bytes).ok());
    CHECK(contents(*place.store, "key") == bytes);
    CHECK(place.store->usage(Tier::Memory).bytes == 0);
}

TEST_CASE("a directory that nobody may write to gives a clear error") {
    StoreDir place;
    if (::geteuid() == 0) {
        MESSAGE("skipped: root may write to every directory");
        return;
    }
    REQUIRE(::chmod(place.tier(Tier::Memory).c_str(), 0500) == 0);
    auto refused = put(*place.store, "key", random_bytes(100'000, 1));
    CHECK(refused.status().code() == Code::Damaged);
    CHECK(refused.status().message().find("Permission denied") != std::string::npos);
    CHECK(place.store->usage(Tier::Memory).reserved == 0);
    REQUIRE(::chmod(place.tier(Tier::Memory).c_str(), 0700) == 0);
}

TEST_CASE("a file system that is full, or turns read-only, gives a clear error") {
    TempDir dir;
    std::string mount = dir / "tiny";
    REQUIRE(::mkdir(mount.c_str(), 0700) == 0);
    if (::mount("tmpfs", mount.c_str(), "tmpfs", 0, "size=256k") != 0) {
        MESSAGE("skipped: mounting a small tmpfs needs root");
        return;
    }
    struct Unmount {
        std::string path;
        ~Unmount() { ::umount2(path.c_str(), MNT_DETACH); }
    } unmount{mount};
    {
        auto store = Store::open({{{mount + "/mem", 64 << 20}, {dir / "disk", 64 << 20}}});
        REQUIRE(store.ok());
        CHECK(put(**store, "fits", random_bytes(100'000, 1)).ok());
        CHECK(put(**store, "large", random_bytes(400'000, 1)).status().code() == Code::Full);
        CHECK((*store)->find("large") == nullptr);
        CHECK((*store)->usage(Tier::Memory).reserved == 0);
        CHECK(files_in(mount + "/mem") == 1);
        CHECK(put(**store, "small", random_bytes(100'000, 2)).ok());
        REQUIRE(::mount("tmpfs", mount.c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, "") == 0);
        auto refused = put(**store, "late", random_bytes(70'000, 1));
        CHECK(refused.status().code() == Code::Damaged);
        CHECK(refused.status().message().find("Read-only file system") != std::string::npos);
        CHECK(contents(**store, "fits") == random_bytes(100'000, 1));
        REQUIRE(::mount("tmpfs", mount.c_str(), "tmpfs", MS_REMOUNT, "") == 0);
    }
    CHECK(files_in(mount) == 0);
}
