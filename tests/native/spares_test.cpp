// Single-use files: their pages are there before they are needed, and nobody writes to them twice.
#include "files/spares.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <thread>

#include "support.hpp"

using namespace holdfast;
using namespace holdfast::test;

namespace {

Result<Fd> filled(Spares& spares, std::string_view bytes) {
    auto file = spares.take(bytes.size());
    if (!file.ok()) return file.take_status();
    if (Status status = file->write(bytes.data(), bytes.size()); !status.ok()) return status;
    return std::move(*file).seal(bytes.size());
}

std::string all_of(const Fd& fd) {
    return read_file("/proc/self/fd/" + std::to_string(fd.get()));
}

struct stat about(const Fd& fd) {
    struct stat info{};
    REQUIRE(::fstat(fd.get(), &info) == 0);
    return info;
}

// What this thread has used of a processor, in microseconds.
double own_time() {
    timespec now{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

constexpr std::uint64_t kMB = 1 << 20;

}  // namespace

TEST_CASE("what is passed is whole, read-only and without a name, from a spare or not") {
    StoreDir place(512 * kMB);
    Spares spares(*place.store);
    std::set<ino_t> seen;
    std::vector<Fd> passed;
    std::vector<std::string> contents;
    std::size_t ahead = 0;
    for (std::uint64_t i = 0; i < 40; ++i) {
        std::size_t sizes[] = {0, 1, 4096, 100'000, 2'500'001};
        std::string bytes = random_bytes(sizes[i % 5], i);
        std::uint64_t kept = spares.kept();
        auto file = filled(spares, bytes);
        REQUIRE(file.ok());
        ahead += spares.kept() < kept;
        struct stat info = about(*file);
        CHECK(info.st_size == static_cast<off_t>(bytes.size()));
        CHECK((info.st_mode & 07777) == 0400);
        CHECK(info.st_nlink == 0);
        CHECK((::fcntl(file->get(), F_GETFL) & O_ACCMODE) == O_RDONLY);
        CHECK(::pwrite(file->get(), "x", 1, 0) == -1);
        CHECK(seen.insert(info.st_ino).second);  // while all are open: none was used twice
        passed.push_back(std::move(*file));
        contents.push_back(std::move(bytes));
        if (i >= 10) CHECK(eventually([&] { return spares.kept() > 0; }));
    }
    CHECK(ahead > 0);
    for (std::size_t i = 0; i < passed.size(); ++i) CHECK(all_of(passed[i]) == contents[i]);
    CHECK(files_in(place.tier(Tier::Memory)) == 0);
}

TEST_CASE("a spare that is not wanted at this moment is kept while there is room") {
    StoreDir place(512 * kMB);
    Spares spares(*place.store);
    spares.set_limit(4 * kMB);
    for (int i = 0; i < 5; ++i) REQUIRE(filled(spares, random_bytes(400'000, 1)).ok());
    CHECK(eventually([&] { return spares.kept() >= 3 * kMB / 2; }));
    // So many that the others are no longer among those taken last.
    for (int i = 0; i < 100; ++i) REQUIRE(filled(spares, "small").ok());
    CHECK(eventually([&] { return spares.kept() >= 2 * kMB; }));
    CHECK(spares.take(400'000)->spare());
    // Until the room is wanted.
    for (int i = 0; i < 20; ++i) REQUIRE(filled(spares, random_bytes(900'000, 1)).ok());
    CHECK(eventually([&] { return spares.take(900'000)->spare(); }));
    CHECK(spares.kept() <= 4 * kMB);
}

TEST_CASE("spares are counted in the tier, and go back to it") {
    StoreDir place(64 * kMB);
    auto reserved = [&] { return place.store->usage(Tier::Memory).reserved; };
    {
        Spares spares(*place.store);
        CHECK(reserved() == 0);  // nothing before the first is taken
        for (int i = 0; i < 20; ++i) {
            REQUIRE(filled(spares, random_bytes(500'000, 1)).ok());
            std::uint64_t kept = spares.kept();  // only grows meanwhile
            CHECK(reserved() >= kept);
        }
        CHECK(eventually([&] { return spares.kept() >= 6 * kMB; }));  // three quarters of it
        CHECK(spares.kept() <= 8 * kMB);                              // an eighth
        spares.set_limit(2 * kMB);
        CHECK(eventually([&] { return spares.kept() <= 2 * kMB; }));
        CHECK(eventually([&] { return reserved() == spares.kept(); }));
        spares.set_limit(0);
        CHECK(eventually([&] { return spares.kept() == 0; }));
        auto file = spares.take(500'000);  // then each is made when it is needed
        REQUIRE(file.ok());
        CHECK_FALSE(file->spare());
        CHECK(reserved() == 503'808);  // whole pages
    }
    CHECK(reserved() == 0);
    CHECK(files_in(place.tier(Tier::Memory)) == 0);
}

TEST_CASE("a file that is given up, or not whole, gives its room back and passes nothing") {
    StoreDir place(64 * kMB);
    std::size_t before = open_descriptors();
    {
        Spares spares(*place.store);
        spares.set_limit(0);
        {
            auto file = spares.take(1000);
        }
        auto file = spares.take(1000);
        REQUIRE(file->write("half", 4).ok());
        CHECK(std::move(*file).seal(1000).status().code() == Code::Damaged);
    }
    CHECK(place.store->usage(Tier::Memory).reserved == 0);
    CHECK(open_descriptors() == before);
}

TEST_CASE("a tier that is full of what has no source gives no file, and keeps what it has") {
    StoreDir place(8 * kMB);
    Spares spares(*place.store);
    REQUIRE(put(*place.store, "key", random_bytes(7 * kMB, 1)).ok());
    spares.set_limit(0);  // or the last room may go to a spare
    CHECK(spares.take(2 * kMB).status().code() == Code::Full);
    CHECK(filled(spares, random_bytes(kMB / 4, 2)).ok());
    CHECK(spares.take(~std::uint64_t{0}).status().code() == Code::Full);
    CHECK(contents(*place.store, "key") == random_bytes(7 * kMB, 1));
}

TEST_CASE("many take at once") {
    StoreDir place(512 * kMB);
    Spares spares(*place.store);
    std::vector<std::thread> threads;
    for (std::uint64_t t = 0; t < 8; ++t) {
        threads.emplace_back([&, t] {
            for (std::uint64_t i = 0; i < 20; ++i) {
                std::string bytes = random_bytes(50'000 + 10'000 * i, t * 100 + i);
                auto file = filled(spares, bytes);
                CHECK(file.ok());
                if (file.ok()) CHECK(all_of(*file) == bytes);
            }
        });
    }
    for (auto& thread : threads) thread.join();
}

TEST_CASE("filling 2.5 MB into a spare against a fresh file") {
    StoreDir place(512 * kMB);
    Spares spares(*place.store);
    constexpr std::size_t kSize = 2'500'000;
    std::string piece = random_bytes(250'000, 1);  // as it would come from the network
    auto fill_once = [&](bool ahead) {
        if (ahead) CHECK(eventually([&] { return spares.kept() >= kSize; }));
        double start = own_time();
        auto file = spares.take(kSize);
        REQUIRE(file.ok());
        for (std::size_t at = 0; at < kSize; at += piece.size())
            REQUIRE(file->write(piece.data(), piece.size()).ok());
        auto passed = std::move(*file).seal(kSize);
        double taken = own_time() - start;
        REQUIRE(passed.ok());
        return taken;  // without its end, which is the reader's
    };
    std::vector<double> fresh, spare;
    for (int i = 0; i < 15; ++i) {
        spares.set_limit(0);
        CHECK(eventually([&] { return spares.kept() == 0; }));
        fresh.push_back(fill_once(false));
        spares.set_limit(32 * kMB);
        fill_once(false);  // so that one of this size is wanted
        spare.push_back(fill_once(true));
    }
    auto median = [](std::vector<double>& of) {
        std::sort(of.begin(), of.end());
        return of[of.size() / 2];
    };
    double slow = median(fresh), fast = median(spare);
    MESSAGE("fresh ", slow, " us, spare ", fast, " us of this thread: ratio ", slow / fast);
}
