// Files handed to programs: what is stored is what the checksums are of, whoever can still write.
#include "store/handing.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "base/passing.hpp"
#include "support.hpp"

using namespace holdfast;
using namespace holdfast::test;

namespace {

bool settled(Node& node) {
    return eventually([&] {
        for (Tier tier : {Tier::Memory, Tier::Disk})
            if (node.store().usage(tier).reserved != 0) return false;
        return true;
    });
}

bool nothing_left(Node& node) {
    return settled(node) && eventually([&] {
               return files_in(node.tier(Tier::Memory)) + files_in(node.tier(Tier::Disk)) == 0;
           });
}

std::vector<std::uint32_t> sums(std::string_view bytes) {
    std::vector<std::uint32_t> chunks;
    for (std::size_t at = 0; at < bytes.size(); at += kChunk) {
        auto chunk = bytes.substr(at, kChunk);
        chunks.push_back(crc32c(0, chunk.data(), chunk.size()));
    }
    return chunks;
}

bool write_to(const Fd& file, std::string_view bytes, off_t at = 0) {
    return ::pwrite(file.get(), bytes.data(), bytes.size(), at) ==
           static_cast<ssize_t>(bytes.size());
}

// A program of a node's host, on one connection.
class Program {
  public:
    explicit Program(Node& node, std::string address = {})
        : address_(address.empty() ? node.local : address) {}

    Status hand(const std::vector<HandMessage::File>& files, Tier tier = Tier::Memory,
                Duration bears = kDeadline) {
        Question question{
            .op = Op::Hand, .flags = kDescriptor, .meta = HandMessage{tier, files}.encode()};
        Status status;
        if (exchange_) {
            status = exchange_->ask_again(question);
        } else {
            auto exchange = connections_.ask(address_, question, bears);
            if (!exchange.ok()) return exchange.take_status();
            exchange_.emplace(std::move(*exchange));
        }
        passed = status.ok() ? exchange_->take_descriptors() : std::vector<Fd>();
        return status;
    }
    Status seal(const std::vector<Node*>& owners, const std::string& key,
                const std::vector<std::uint32_t>& chunks, Tier tier = Tier::Memory) {
        PutMessage message{key, tier};
        for (Node* owner : owners) {
            message.owners.push_back(owner->number);
            if (owner != owners.front()) message.onward.push_back(owner->tcp);
        }
        std::string body = encode_checksums(chunks);
        Question question{.op = Op::Seal, .meta = message.encode(), .body = body};
        return exchange_->ask_again(question);
    }
    void leave() {
        exchange_.reset();
        connections_.close_idle();
    }
    std::vector<Fd> passed;

  private:
    std::string address_;
    ConnectionPool connections_{kKey};
    std::optional<Exchange> exchange_;
};

// What somebody keeps by whom a file can be written although its program has closed it.
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

TEST_CASE("handing: room and keys are given back as soon as the connection is gone") {
    Node a;
    std::vector<HandMessage::File> files;
    for (int i = 0; i < 64; ++i)
        files.push_back({key_of({&a}, "key" + std::to_string(i)), 100'000});
    for (Tier tier : {Tier::Memory, Tier::Disk}) {
        Program program(a);
        REQUIRE(program.hand(files, tier).ok());
        REQUIRE(program.passed.size() == 64);
        for (Fd& file : program.passed) REQUIRE(write_to(file, "some"));
        CHECK(a.store().usage(tier).reserved >= 6'400'000);
        CHECK(put(a.store(), files[0].key, "bytes").status().code() == Code::Busy);
        CHECK(program.hand({{key_of({&a}, "more"), 100'000}}, tier).code() == Code::BadInput);
        program.leave();
        CHECK(nothing_left(a));
    }
    CHECK(put(a.store(), files[0].key, "bytes").ok());
    // All or nothing: the last of them is there with another size.
    std::swap(files.front(), files.back());
    Program program(a);
    CHECK(program.hand(files).code() == Code::KeyExists);
    CHECK(settled(a));
    files.push_back({"one more", 100'000});
    CHECK(program.hand(files).code() == Code::BadInput);
    CHECK(program.hand({{"twice", 100'000}, {"twice", 100'000}}).code() == Code::BadInput);
    CHECK(program.hand({{"small", 65'535}}).code() == Code::BadInput);
    CHECK(program.hand({}).code() == Code::Damaged);
}

TEST_CASE("handing: descriptors for which there are too few numbers do not come at all") {
    int ends[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    Fd from(ends[0]), to(ends[1]);
    const int sent[] = {0, 1, 2, 0};
    auto receive = [&] {
        char byte = 'x';
        iovec part{&byte, 1};
        msghdr out{}, in{};
        out.msg_iov = in.msg_iov = &part;
        out.msg_iovlen = in.msg_iovlen = 1;
        Passing sending, receiving;
        sending.attach(out, sent, std::size(sent));
        receiving.make_room(in);
        CHECK(::sendmsg(from.get(), &out, 0) == 1);
        CHECK(::recvmsg(to.get(), &in, MSG_CMSG_CLOEXEC) == 1);
        return Passing::take(in).size();
    };
    CHECK(receive() == 4);
    std::size_t before = open_descriptors();
    rlimit limit{};
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &limit) == 0);
    rlimit low = limit;
    int next = ::dup(0);
    ::close(next);
    low.rlim_cur = static_cast<rlim_t>(next) + 2;  // at most two numbers are free
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &low) == 0);
    CHECK(receive() == 0);
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &limit) == 0);
    CHECK(open_descriptors() == before);
}

TEST_CASE("handing: one connection's files are no business of another") {
    Node a;
    std::string key = key_of({&a}), bytes = random_bytes(100'000, 1);
    Program mine(a), other(a), remote(a, a.tcp);
    REQUIRE(mine.hand({{key, bytes.size()}}).ok());
    REQUIRE(other.hand({{"other", bytes.size()}}).ok());
    REQUIRE(write_to(mine.passed.at(0), bytes));
    mine.passed.clear();
    CHECK(other.seal({&a}, key, sums(bytes)).code() == Code::Busy);
    CHECK(remote.hand({{"remote", bytes.size()}}).code() == Code::BadInput);
    CHECK(mine.seal({&a}, key, sums(bytes)).ok());
    CHECK(mine.seal({&a}, key, sums(bytes)).code() == Code::Busy);
    CHECK(contents(a.store(), key) == bytes);
    ConnectionPool pool(kKey);
    PutMessage message{key, Tier::Memory, {a.number}};
    std::string body = encode_checksums(sums(bytes));
    auto sealed =
        pool.ask(a.tcp, {.op = Op::Seal, .meta = message.encode(), .body = body}, kDeadline);
    CHECK(sealed.status().code() == Code::BadInput);
}

TEST_CASE("handing: a program that is silent for as long as it bears loses a key that is wanted") {
    Node a;
    std::string key = key_of({&a}), bytes = random_bytes(100'000, 1);
    AgentClient next(kKey);
    auto wanted = [&] {
        return next.put({a.tcp}, {a.number}, key, bytes, Tier::Memory, kDeadline);
    };
    Program program(a);
    REQUIRE(
        program.hand({{key, bytes.size()}, {"beside", bytes.size()}}, Tier::Memory, 400ms).ok());
    CHECK(wanted().code() == Code::Busy);
    for (int i = 0; i < 5; ++i) {  // it writes to another of its files
        std::this_thread::sleep_for(150ms);
        REQUIRE(write_to(program.passed.at(1), "a sign of life"));
        CHECK(wanted().code() == Code::Busy);
    }
    std::this_thread::sleep_for(450ms);
    CHECK(wanted().ok());
    CHECK(write_to(program.passed.at(0), std::string(bytes.size(), 'x')));
    program.passed.clear();
    CHECK(program.seal({&a}, key, sums(bytes)).code() == Code::Busy);
    CHECK(contents(a.store(), key) == bytes);
    program.leave();
    CHECK(settled(a));
}

TEST_CASE("handing: files whose clock is ahead of ours belong to a silent program all the same") {
    Node a;
    std::string key = key_of({&a}), bytes = random_bytes(100'000, 1);
    AgentClient next(kKey);
    Program program(a);
    REQUIRE(program.hand({{key, bytes.size()}}, Tier::Memory, 200ms).ok());
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME, &now);
    now.tv_sec += 3600;
    const timespec times[] = {now, now};
    REQUIRE(::futimens(program.passed.at(0).get(), times) == 0);
    CHECK(eventually(
        [&] { return next.put({a.tcp}, {a.number}, key, bytes, Tier::Memory, kDeadline).ok(); }));
}

TEST_CASE("handing: a connection may rest while its program writes, and not while it is silent") {
    Node a(256 << 20, 256 << 20, "tcp:127.0.0.1:0", {.resting = 100ms, .look = 20ms});
    std::string key = key_of({&a}), bytes = random_bytes(1'000'000, 1);
    Program program(a), silent(a);
    REQUIRE(program.hand({{key, bytes.size()}}, Tier::Memory, 400ms).ok());
    REQUIRE(silent.hand({{"silent", bytes.size()}}, Tier::Memory, 100ms).ok());
    for (std::size_t at = 0; at < bytes.size(); at += 100'000) {
        REQUIRE(write_to(program.passed.at(0), bytes.substr(at, 100'000), static_cast<off_t>(at)));
        std::this_thread::sleep_for(50ms);
    }
    CHECK(eventually([&] { return !a.store().is_being_written("silent"); }));
    program.passed.clear();
    CHECK(program.seal({&a}, key, sums(bytes)).ok());
    CHECK(contents(a.store(), key) == bytes);
    // It has no files any more, so that it rests like others.
    CHECK(eventually([&] { return a.agent().server().traffic().connections == 0; }));
}

TEST_CASE("handing: files that cannot be looked at hold up nobody but those who want them") {
    Node a;
    std::string key = key_of({&a}), bytes = random_bytes(100'000, 1);
    Program program(a);
    REQUIRE(program.hand({{key, bytes.size()}}, Tier::Disk).ok());
    REQUIRE(write_to(program.passed.at(0), bytes));
    // To open it is to wait for somebody who writes to it, as for a disk that hangs.
    std::string path;
    for (auto& entry : std::filesystem::recursive_directory_iterator(a.tier(Tier::Disk)))
        if (entry.is_regular_file() && entry.file_size() == bytes.size()) path = entry.path();
    REQUIRE(::unlink(path.c_str()) == 0);
    REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
    std::atomic<bool> refused{false};
    std::thread wants([&] {
        AgentClient next(kKey);
        Status status = next.put({a.tcp}, {a.number}, key, bytes, Tier::Memory, kDeadline);
        refused = status.code() == Code::Busy;
    });
    std::this_thread::sleep_for(300ms);
    CHECK(!refused);
    Program other(a);
    CHECK(other.hand({{"other", bytes.size()}}).ok());
    other.leave();
    CHECK(eventually([&] { return !a.store().is_being_written("other"); }));
    CHECK(!refused);
    Fd writes(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    wants.join();
    CHECK(refused);
}

TEST_CASE("handing: what was dropped meanwhile, or has other owners, is not sealed") {
    Node a, b;
    agree({&a, &b});
    std::string key = key_of({&a, &b}), bytes = random_bytes(100'000, 1);
    auto refused = [&](const std::vector<Node*>& owners, const std::function<void()>& meanwhile) {
        Program program(a);
        REQUIRE(program.hand({{key, bytes.size()}}).ok());
        REQUIRE(write_to(program.passed.at(0), bytes));
        program.passed.clear();
        meanwhile();
        Code code = program.seal(owners, key, sums(bytes)).code();
        CHECK((nothing_left(a) && nothing_left(b)));
        return code;
    };
    CHECK(refused({&b, &a}, [] {}) == Code::StaleView);
    CHECK(refused({&b}, [] {}) == Code::StaleView);  // nobody else would see it
    CHECK(refused({&a, &b}, [&] { agree({&b}, 2); }) == Code::StaleView);  // the next one sees it
    agree({&a, &b});
    CHECK(refused({&a, &b}, [&] { a.store().drop(key); }) == Code::KeyExists);
}

TEST_CASE("handing: a full tier refuses, for a file and for the copy of one") {
    Node a(1 << 20);
    std::string key = key_of({&a}), bytes = random_bytes(600'000, 1);
    Program program(a);
    REQUIRE(program.hand({{key, bytes.size()}}).ok());
    Fd kept = std::move(program.passed.at(0));
    CHECK(program.hand({{"second", bytes.size()}}).code() == Code::Full);
    REQUIRE(write_to(kept, bytes));
    CHECK(program.seal({&a}, key, sums(bytes)).code() == Code::Full);
    CHECK(nothing_left(a));
    AgentClient next(kKey);
    CHECK(next.put({a.local}, {a.number}, key, bytes, Tier::Memory, kDeadline).ok());
    CHECK(next.put({a.local}, {a.number}, "second", bytes, Tier::Memory, kDeadline).code() ==
          Code::Full);
}

TEST_CASE("handing: many programs at once, some of them with the same bytes under one key") {
    Node a, b;
    agree({&a, &b});
    std::string shared = key_of({&a, &b}, "shared"), same = random_bytes(200'000, 99);
    std::vector<std::string> keys;
    for (int i = 0; i < 64; ++i) keys.push_back(key_of({&a, &b}, "key" + std::to_string(i)));
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < 64; ++i) {
        threads.emplace_back([&, i] {
            AgentClient program(kKey);
            auto put = [&](const std::string& key, const std::string& bytes) {
                for (;;) {
                    Status status = program.put({a.local, b.tcp}, {a.number, b.number}, key, bytes,
                                                Tier::Memory, kDeadline);
                    if (status.code() != Code::Busy) return status.ok();
                    std::this_thread::sleep_for(1ms);
                }
            };
            std::string bytes = random_bytes(200'000 + i, i);
            if (!put(keys[i], bytes) || !put(shared, same)) ++wrong;
            auto got = get(program, i % 2 == 0 ? a.tcp : b.tcp, {keys[i]});
            if (!got.ok() || *got != bytes) ++wrong;
        });
    }
    for (auto& thread : threads) thread.join();
    CHECK(wrong == 0);
    CHECK(contents(a.store(), shared) == same);
    CHECK((settled(a) && settled(b)));
}
