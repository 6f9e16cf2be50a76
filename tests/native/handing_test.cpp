// Files handed to programs: what is stored is what the checksums are of, whoever can still write.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "handed_program.hpp"

using namespace holdfast;
using namespace holdfast::test;

namespace {

struct Writable {
    const char* how;
    // Takes the descriptor; what it gives writes these bytes at the beginning.
    std::function<std::function<void(std::string_view)>(Fd, std::size_t)> keep;
};

std::function<void(std::string_view)> keep_descriptor(Fd file, std::size_t) {
    return [file = std::make_shared<Fd>(std::move(file))](std::string_view bytes) {
        CHECK(write_to(*file, bytes));
    };
}

std::function<void(std::string_view)> keep_map(Fd file, std::size_t size) {
    void* map = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    REQUIRE(map != MAP_FAILED);
    std::shared_ptr<void> kept(map, [size](void* at) { ::munmap(at, size); });
    return [kept](std::string_view bytes) { std::memcpy(kept.get(), bytes.data(), bytes.size()); };
}

std::function<void(std::string_view)> keep_in_child(Fd file, std::size_t) {
    int told[2], done[2];
    REQUIRE(::pipe(told) == 0);
    REQUIRE(::pipe(done) == 0);
    pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        char bytes[8];
        ::close(told[1]);  // else it would never end
        while (::read(told[0], bytes, sizeof bytes) == sizeof bytes) {
            (void)!::pwrite(file.get(), bytes, sizeof bytes, 0);
            (void)!::write(done[1], "x", 1);
        }
        ::_exit(0);
    }
    ::close(told[0]);
    ::close(done[1]);
    struct Child {
        pid_t pid;
        Fd told, done;
        ~Child() {
            told.reset();
            ::waitpid(pid, nullptr, 0);
        }
    };
    std::shared_ptr<Child> kept(new Child{child, Fd(told[1]), Fd(done[0])});
    return [kept](std::string_view bytes) {
        REQUIRE(bytes.size() == 8);
        REQUIRE(::write(kept->told.get(), bytes.data(), 8) == 8);
        char answer;
        REQUIRE(::read(kept->done.get(), &answer, 1) == 1);
    };
}

const Writable kWays[] = {
    {"a descriptor", keep_descriptor}, {"a map", keep_map}, {"a forked child", keep_in_child}};

}  // namespace

TEST_CASE("handing: what a program writes to its file is stored by all owners") {
    Node a, b, c;
    agree({&a, &b, &c});
    AgentClient program(kKey);
    std::uint64_t puts = 0;
    for (std::size_t size : {65'536u, 65'537u, 1'000'000u}) {
        for (Tier tier : {Tier::Memory, Tier::Disk}) {
            for (auto& owners : std::vector<std::vector<Node*>>{{&a}, {&b, &a}, {&b, &c, &a}}) {
                std::string bytes = random_bytes(size, ++puts);
                std::string key = key_of(owners, "key" + std::to_string(puts));
                // Our own node first, whatever its place on the ring.
                std::vector<std::string> addresses{a.local};
                std::vector<std::uint64_t> numbers;
                for (Node* owner : owners) {
                    numbers.push_back(owner->number);
                    if (owner != &a) addresses.push_back(owner->tcp);
                }
                auto put = [&](std::string_view what, bool hand) {
                    return program.put(addresses, numbers, key, what, tier, kDeadline,
                                       {.hand = hand});
                };
                REQUIRE(put(bytes, true).ok());
                CHECK(a.store().counters().sealed == puts);
                for (Node* owner : owners) {
                    ObjectPtr object = owner->store().find(key);
                    REQUIRE(object);
                    CHECK(object->tier == tier);
                    CHECK(object->copies == owners.size());
                    CHECK(owner->store().verify(object).ok());
                    CHECK(*get(program, owner->tcp, {key}) == bytes);
                    CHECK(*get(program, owner->tcp, {key, 100, 70'000}) ==
                          bytes.substr(100, 70'000));
                }
                std::string other = bytes;
                other.back() ^= 1;
                CHECK(put(bytes, true).ok());
                CHECK(put(other, true).code() == Code::KeyExists);
                CHECK(put(bytes + "x", true).code() == Code::KeyExists);
                CHECK(a.store().counters().sealed == puts);  // they were compared
                REQUIRE(put(bytes, false).ok());
            }
        }
    }
    CHECK(a.store().counters().seal_copied == 0);
    CHECK((settled(a) && settled(b) && settled(c)));
}

TEST_CASE("handing: whoever writes after the file was sealed does not change the object") {
    Node a, b;
    agree({&a, &b});
    AgentClient remote(kKey);
    std::uint64_t copied = 0;
    for (auto& way : kWays) {
        for (Tier tier : {Tier::Memory, Tier::Disk}) {
            CAPTURE(way.how);
            std::string key =
                key_of({&a, &b}, std::string(way.how) + (tier == Tier::Disk ? "disk" : ""));
            std::string bytes = random_bytes(300'000, ++copied);
            Program program(a);
            REQUIRE(program.hand({{key, bytes.size()}}, tier).ok());
            REQUIRE(write_to(program.passed.at(0), bytes));
            auto write = way.keep(std::move(program.passed[0]), bytes.size());
            REQUIRE(program.seal({&a, &b}, key, sums(bytes), tier).ok());
            CHECK(a.store().counters().seal_copied == copied);
            write("too late");
            for (Node* owner : {&a, &b}) {
                CHECK(*get(remote, owner->tcp, {key}) == bytes);
                CHECK(owner->store().verify(owner->store().find(key)).ok());
            }
        }
    }
    CHECK((settled(a) && settled(b)));
}

TEST_CASE("handing: whoever writes before the file is sealed is found out, if it can write still") {
    Node a, b;
    agree({&a, &b});
    for (auto& way : kWays) {
        CAPTURE(way.how);
        std::string key = key_of({&a, &b}), bytes = random_bytes(300'000, 1);
        Program program(a);
        REQUIRE(program.hand({{key, bytes.size()}}).ok());
        REQUIRE(write_to(program.passed.at(0), bytes));
        auto write = way.keep(std::move(program.passed[0]), bytes.size());
        write("too soon");
        CHECK(program.seal({&a, &b}, key, sums(bytes)).code() == Code::Damaged);
        for (Node* owner : {&a, &b}) CHECK(owner->store().find(key) == nullptr);
        CHECK((nothing_left(a) && nothing_left(b)));
    }
}

TEST_CASE("handing: a map that can only be read, of a descriptor that could write, counts too") {
    Node a;
    std::string key = key_of({&a}), bytes = random_bytes(100'000, 1);
    Program program(a);
    REQUIRE(program.hand({{key, bytes.size()}}).ok());
    REQUIRE(write_to(program.passed.at(0), bytes));
    void* map = ::mmap(nullptr, bytes.size(), PROT_READ, MAP_SHARED, program.passed[0].get(), 0);
    REQUIRE(map != MAP_FAILED);
    program.passed.clear();
    REQUIRE(program.seal({&a}, key, sums(bytes)).ok());
    CHECK(a.store().counters().seal_copied == 1);
    REQUIRE(::mprotect(map, bytes.size(), PROT_READ | PROT_WRITE) == 0);
    std::memset(map, 0, bytes.size());
    CHECK(contents(a.store(), key) == bytes);
    ::munmap(map, bytes.size());
}

TEST_CASE("handing: a child that goes on writing while its file is copied changes no object") {
    Node a, b;
    agree({&a, &b});
    AgentClient remote(kKey);
    std::string bytes = random_bytes(2'000'000, 1);
    std::uint64_t sealed = 0;
    for (int round = 0; round < 20; ++round) {
        std::string key = key_of({&a, &b}, "key" + std::to_string(round));
        Program program(a);
        REQUIRE(program.hand({{key, bytes.size()}}).ok());
        REQUIRE(write_to(program.passed.at(0), bytes));
        pid_t child = ::fork();
        REQUIRE(child >= 0);
        if (child == 0) {
            // One byte, wrong for half of the time, somewhere in what is copied last.
            for (char byte = bytes.back();; byte = static_cast<char>(byte ^ 1)) {
                off_t at = static_cast<off_t>(bytes.size()) - 1;
                (void)!::pwrite(program.passed[0].get(), &byte, 1, at);
                if (round % 2 == 0) ::usleep(200);
            }
        }
        program.passed.clear();
        Code code = program.seal({&a, &b}, key, sums(bytes)).code();
        if (code == Code::Ok) {
            ++sealed;
            for (Node* owner : {&a, &b}) CHECK(*get(remote, owner->tcp, {key}) == bytes);
        } else {
            CHECK(code == Code::Damaged);
            for (Node* owner : {&a, &b}) CHECK(owner->store().find(key) == nullptr);
        }
        ::kill(child, SIGKILL);
        ::waitpid(child, nullptr, 0);
        if (code == Code::Ok)
            for (Node* owner : {&a, &b})
                CHECK(owner->store().verify(owner->store().find(key)).ok());
    }
    CHECK(a.store().counters().seal_copied == 20);
    CHECK(sealed == a.store().usage(Tier::Memory).objects);
    CHECK((settled(a) && settled(b)));
}

TEST_CASE("handing: a file of another size than was promised is refused") {
    Node a, b;
    agree({&a, &b});
    std::string key = key_of({&a, &b}), bytes = random_bytes(300'000, 1);
    for (std::size_t size : {std::size_t{0}, bytes.size() - 1, bytes.size()}) {
        Program program(a);
        // Older kernels' files have their size before their bytes.
        REQUIRE(program.hand({{key, 250'000}}).ok());
        REQUIRE(::ftruncate(program.passed.at(0).get(), static_cast<off_t>(size)) == 0);
        program.passed.clear();
        CHECK(program.seal({&a, &b}, key, sums(bytes.substr(0, 250'000))).code() == Code::BadInput);
        CHECK((nothing_left(a) && nothing_left(b)));
    }
}

TEST_CASE("handing: wrong checksums are never answered as bytes") {
    Node a, b;
    agree({&a, &b});
    AgentClient remote(kKey);
    std::string bytes = random_bytes(300'000, 1);
    auto chunks = sums(bytes);
    chunks[2] ^= 1;
    auto sealed = [&](const std::vector<Node*>& owners, const std::string& key) {
        Program program(a);
        REQUIRE(program.hand({{key, bytes.size()}}).ok());
        REQUIRE(write_to(program.passed.at(0), bytes));
        program.passed.clear();
        return program.seal(owners, key, chunks);
    };
    std::string both = key_of({&a, &b}), alone = key_of({&a}, "alone");
    CHECK(sealed({&a, &b}, both).code() == Code::Damaged);  // the next owner verifies
    for (Node* owner : {&a, &b}) CHECK(owner->store().find(both) == nullptr);
    CHECK((nothing_left(a) && nothing_left(b)));
    // With one copy nobody reads the bytes again before a get does, or the scrub.
    REQUIRE(sealed({&a}, alone).ok());
    CHECK(get(remote, a.tcp, {alone}).status().code() == Code::Damaged);
    CHECK(a.store().verify(a.store().find(alone)).code() == Code::Damaged);
    CHECK(a.store().find(alone) == nullptr);
    chunks.pop_back();
    CHECK(sealed({&a}, key_of({&a}, "few")).code() == Code::BadInput);
    CHECK(nothing_left(a));
}
