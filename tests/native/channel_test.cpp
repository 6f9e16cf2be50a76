// Deadlines of a connection: silence ends it, and so does endless trickling.
#include "rpc/channel.hpp"

#include <sys/socket.h>
#include <time.h>

#include <atomic>
#include <thread>

#include "support.hpp"

using namespace holdfast;
using namespace holdfast::test;

namespace {

struct Pair {
    Pair() {
        int fds[2];
        REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
        ours.emplace(Fd(fds[0]));
        theirs.reset(fds[1]);
    }
    std::optional<Channel> ours;
    Fd theirs;
};

}  // namespace

TEST_CASE("a silent peer misses the deadline") {
    Pair pair;
    char byte;
    auto before = Clock::now();
    CHECK(pair.ours->receive(&byte, 1, Deadline(50ms)).status().code() == Code::DeadlineMissed);
    CHECK(Clock::now() - before >= 45ms);
}

TEST_CASE("who looks for bytes first gets those that come then or later, and sleeps meanwhile") {
    Pair pair;
    pair.ours->look_for(1ms);
    auto cpu_time = [] {
        timespec now{};
        ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
        return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
    };
    char byte;
    CHECK(pair.ours->receive(&byte, 1, Deadline(50ms)).status().code() == Code::DeadlineMissed);
    for (auto pause : {0ms, 300ms}) {
        auto before = cpu_time();
        std::thread sends([&] {
            std::this_thread::sleep_for(pause);
            send_all(pair.theirs.get(), "x");
        });
        auto got = pair.ours->receive(&byte, 1, Deadline(kDeadline));
        sends.join();
        REQUIRE(got.ok());
        CHECK(byte == 'x');
        CHECK(cpu_time() - before < 100ms);
    }
    pair.theirs.reset();
    CHECK(pair.ours->receive(&byte, 1, Deadline(kDeadline)).status().code() == Code::Unavailable);
}

TEST_CASE("a peer that reads nothing misses the deadline") {
    Pair pair;
    std::string much(8 << 20, 'x');
    CHECK(pair.ours->send(much.data(), much.size(), Deadline(50ms)).code() == Code::DeadlineMissed);
}

TEST_CASE("a peer that trickles misses the deadline all the same") {
    Pair pair;
    std::atomic<bool> done{false};
    std::thread trickle([&] {
        while (!done) {
            send_all(pair.theirs.get(), "x");
            std::this_thread::sleep_for(5ms);
        }
    });
    char buffer[100'000];
    Status status = pair.ours->receive_all(buffer, sizeof buffer, Deadline(100ms));
    CHECK(status.code() == Code::DeadlineMissed);
    done = true;
    trickle.join();
}

TEST_CASE("a closed connection is unavailable, in both directions") {
    Pair pair;
    pair.theirs.reset();
    char byte = 0;
    CHECK(pair.ours->receive(&byte, 1, Deadline(kDeadline)).status().code() == Code::Unavailable);
    CHECK(pair.ours->send(&byte, 1, Deadline(kDeadline)).code() == Code::Unavailable);
}

TEST_CASE("nobody there is unavailable at once") {
    TempDir dir;
    AgentClient remote(kKey);
    CHECK(remote.stat("unix:" + (dir / "none"), "k", kDeadline).status().code() ==
          Code::Unavailable);
    CHECK(remote.stat("tcp:127.0.0.1:1", "k", kDeadline).status().code() == Code::Unavailable);
}
