// Files handed to programs: who has them, for how long, and the room that they take.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <thread>

#include "base/passing.hpp"
#include "handed_program.hpp"

using namespace holdfast;
using namespace holdfast::test;

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

namespace {

// An overlay, as containers have it, that new nodes have their directories in; false: not
// permitted.
class Overlay {
  public:
    Overlay() {
        for (const char* name : {"lower", "upper", "work", "merged"})
            REQUIRE(::mkdir((dir_ / name).c_str(), 0700) == 0);
        std::string options = "lowerdir=" + (dir_ / "lower") + ",upperdir=" + (dir_ / "upper") +
                              ",workdir=" + (dir_ / "work");
        mounted_ = ::mount("overlay", at_.c_str(), "overlay", 0, options.c_str()) == 0;
        if (const char* before = ::getenv("TMPDIR")) before_ = before;
        if (mounted_) ::setenv("TMPDIR", at_.c_str(), 1);
    }
    ~Overlay() {
        if (!mounted_) return;
        before_.empty() ? ::unsetenv("TMPDIR") : ::setenv("TMPDIR", before_.c_str(), 1);
        ::umount2(at_.c_str(), MNT_DETACH);
    }
    explicit operator bool() const { return mounted_; }

  private:
    TempDir dir_;
    std::string at_ = dir_ / "merged", before_;
    bool mounted_ = false;
};

}  // namespace

TEST_CASE("handing: a file system that grants a lease beside a map that writes is not believed") {
    Overlay overlay;
    if (!overlay) return;  // as nobody but root may
    Node a;
    std::string key = key_of({&a}), bytes = random_bytes(300'000, 1);
    Program program(a);
    REQUIRE(program.hand({{key, bytes.size()}}, Tier::Disk).ok());
    REQUIRE(write_to(program.passed.at(0), bytes));
    void* map = ::mmap(nullptr, bytes.size(), PROT_READ | PROT_WRITE, MAP_SHARED,
                       program.passed[0].get(), 0);
    REQUIRE(map != MAP_FAILED);
    program.passed.clear();
    REQUIRE(program.seal({&a}, key, sums(bytes), Tier::Disk).ok());
    std::memset(map, 0, bytes.size());
    ::munmap(map, bytes.size());
    CHECK(contents(a.store(), key) == bytes);
    CHECK(a.store().counters().seal_copied == 1);
}

TEST_CASE("handing: children that are forked during a put do not keep its file") {
    Node a;
    AgentClient program(kKey);
    std::atomic<bool> done{false};
    std::string bytes = random_bytes(16 << 20, 1);
    std::thread putting([&] {
        for (int i = 0; !done; ++i) {
            std::string key = key_of({&a}, "key" + std::to_string(i));
            CHECK(program.put({a.local}, {a.number}, key, bytes, Tier::Memory, kDeadline).ok());
            a.store().drop(key);
        }
    });
    int kept = 0;
    for (int i = 0; i < 40; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        pid_t child = ::fork();
        REQUIRE(child >= 0);
        if (child == 0) {
            struct stat file{};
            bool has = false;
            for (int fd = 3; fd < 1024 && !has; ++fd)
                has = ::fstat(fd, &file) == 0 && S_ISREG(file.st_mode) && file.st_size > 0 &&
                      (::fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDWR;
            ::_exit(has ? 1 : 0);
        }
        int status = 0;
        REQUIRE(::waitpid(child, &status, 0) == child);
        kept += WIFEXITED(status) && WEXITSTATUS(status) == 1;
    }
    done = true;
    putting.join();
    CHECK(kept <= 2);  // of those that came before we knew what the reply brought
}
