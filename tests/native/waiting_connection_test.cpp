// A client's waiting connection: many calls of many threads, silence, breaks and forks.
#include "rpc/waiting_connection.hpp"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>

#include <atomic>
#include <thread>

#include "support.hpp"

using namespace holdfast;
using namespace holdfast::test;

namespace {

WaitMessage order(const std::string& message, std::chrono::milliseconds within = 60s) {
    return {"service", "method", message, within};
}

// Plays the Python side of a node until the end, and answers the last call first.
class Python {
  public:
    using Answer = std::function<void(Calls&, const Calls::Call&)>;
    Python(Node& node, Answer answer)
        : thread_([this, &node, answer = std::move(answer)] {
              auto& calls = node.agent().calls();
              while (!done_) {
                  node.agent().probes().beat();
                  std::vector<Calls::Call> taken;
                  while (auto call = calls.next()) taken.push_back(std::move(*call));
                  for (; !taken.empty(); taken.pop_back()) answer(calls, taken.back());
                  std::this_thread::sleep_for(5ms);
              }
          }) {}
    ~Python() {
        done_ = true;
        thread_.join();
    }

  private:
    std::atomic<bool> done_{false};
    std::thread thread_;
};

// An agent's socket behind which the test itself says what it likes.
struct Impostor {
    Impostor() : address("unix:" + (dir / "socket")) {
        listener = std::move(*listen_on(*Address::parse(address)));
    }
    Fd accept() {
        pollfd waiting{listener.get(), POLLIN, 0};
        REQUIRE(::poll(&waiting, 1, 20'000) == 1);
        return Fd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    }
    static std::string answer(std::uint64_t request, const std::string& text) {
        Header header{.op = Op::Wait,
                      .flags = kReply,
                      .request = request,
                      .body_bytes = text.size(),
                      .body_crc = crc32c(0, text.data(), text.size())};
        return frame(header, "", text);
    }
    TempDir dir;
    std::string address;
    Fd listener;
};

}  // namespace

TEST_CASE("calls of many threads share a connection, and each gets its own answer") {
    Node node;
    AgentClient remote(kKey);
    Python python(node, [](Calls& calls, const Calls::Call& call) {
        calls.answer(call.id, call.message + " back");
    });
    std::vector<std::thread> threads;
    std::atomic<int> right{0};
    for (int i = 0; i < 14; ++i)
        threads.emplace_back([&, i] {
            for (int round = 0; round < 50; ++round) {
                std::string text = std::to_string(i) + "/" + std::to_string(round);
                auto call = remote.wait(node.tcp, order(text), kDeadline);
                if (!call.ok()) continue;
                auto answer = call->result();
                right += answer.ok() && *answer == text + " back" && call->done();
            }
        });
    for (auto& thread : threads) thread.join();
    CHECK(right == 14 * 50);
    CHECK(node.agent().server().traffic().connections == 1);
}

TEST_CASE("one thread has many calls at once, and what it drops is cancelled") {
    Node node;
    AgentClient remote(kKey);
    auto& calls = node.agent().calls();
    std::vector<PendingCall> pending;
    std::vector<std::uint64_t> ids;
    for (int i = 0; i < 300; ++i) {
        auto call = remote.wait(node.local, order(std::to_string(i)), kDeadline);
        REQUIRE(call.ok());
        pending.push_back(std::move(*call));
        std::optional<Calls::Call> taken;
        REQUIRE(eventually([&] { return (taken = calls.next()).has_value(); }));
        ids.push_back(taken->id);
    }
    for (auto& call : pending) CHECK_FALSE(call.done());
    std::vector<std::uint64_t> gone;
    auto cancelled = [&](std::size_t count) {
        return eventually([&] {
            for (auto id : calls.take_cancelled()) gone.push_back(id);
            return gone.size() == count;
        });
    };
    pending.pop_back();
    CHECK(cancelled(1));
    CHECK(gone.back() == ids.back());
    pending.back().cancel();
    CHECK(pending.back().done());
    CHECK(pending.back().result().status().message() == "the call was cancelled");
    CHECK(cancelled(2));
    for (std::size_t i = 0; i < 298; ++i) calls.answer(ids[i], "answer " + std::to_string(i));
    for (std::size_t i = 0; i < 298; ++i) {
        CHECK(*pending[i].result() == "answer " + std::to_string(i));
        pending[i].cancel();  // too late
        CHECK(pending[i].result().ok());
    }
    pending.clear();
    CHECK(gone.size() == 2);
    CHECK(calls.take_cancelled().empty());
}

TEST_CASE("a failure is the call's own, and what cannot be sent is refused in a sentence") {
    Node node;
    AgentClient remote(kKey);
    Python python(node, [](Calls& calls, const Calls::Call& call) {
        if (call.message == "bad")
            calls.answer(call.id, Status(Code::NotFound, "nothing of that name"));
        else
            calls.answer(call.id, call.message);
    });
    auto bad = remote.wait(node.tcp, order("bad"), kDeadline);
    auto good = remote.wait(node.tcp, order("good"), kDeadline);
    CHECK(*good->result() == "good");
    CHECK(bad->result().status().code() == Code::NotFound);
    CHECK(bad->result().status().message() == "nothing of that name");
    CHECK(bad->result().status().at() == node.tcp);
    std::string most(kMaxMeta - 100, 'm');
    auto large = remote.wait(node.tcp, order(most), kDeadline);
    CHECK(*large->result() == most);
    auto larger = remote.wait(node.tcp, order(std::string(kMaxMeta, 'm')), kDeadline);
    CHECK(larger.status().code() == Code::BadInput);
    CHECK(remote.wait("nonsense", order(""), kDeadline).status().code() == Code::BadInput);
    auto nobody = remote.wait("unix:/nowhere/socket", order(""), kDeadline);
    CHECK(nobody.status().code() == Code::Unavailable);
    CHECK(nobody.status().at() == "unix:/nowhere/socket");
}

TEST_CASE("a program has only so many calls waiting at one agent") {
    Node node;
    AgentClient remote(kKey);
    std::vector<PendingCall> pending;
    for (int i = 0; i < 1024; ++i)
        pending.push_back(std::move(*remote.wait(node.local, order(""), kDeadline)));
    CHECK(remote.wait(node.local, order(""), kDeadline).status().code() == Code::Busy);
    pending.pop_back();
    CHECK(remote.wait(node.local, order(""), kDeadline).ok());
}

TEST_CASE("an agent that lives is waited for far longer than its silence would be borne") {
    Node node;
    AgentClient remote(kKey);
    auto begin = Clock::now();
    Python python(node, [&](Calls& calls, const Calls::Call& call) {
        std::thread([&calls, id = call.id] {
            std::this_thread::sleep_for(1500ms);
            calls.answer(id, std::string("at last"));
        }).detach();
    });
    auto call = remote.wait(node.tcp, order(""), 300ms);
    CHECK(*call->result() == "at last");
    CHECK(Clock::now() - begin >= 1500ms);
}

TEST_CASE("a silent agent is given up after the deadline, by name") {
    Impostor agent;
    AgentClient remote(kKey);
    auto call = remote.wait(agent.address, order(""), 200ms);
    REQUIRE(call.ok());
    Fd fd = agent.accept();
    auto patient = remote.wait(agent.address, order(""), kDeadline);
    std::thread other([&] { CHECK(*patient->result() == "late"); });
    CHECK(call->result().status().code() == Code::DeadlineMissed);
    CHECK(call->result().status().at() == agent.address);
    // Whoever bears more goes on waiting, and the agent is told of the other.
    CHECK(send_all(fd.get(), Impostor::answer(2, "late")));
    other.join();
    std::string sent;
    CHECK(eventually([&] {
        sent += receive_some(fd.get(), 4096);
        auto size = sent.size();
        return size >= kHeaderBytes &&
               decode_header(sent.data() + size - kHeaderBytes)->op == Op::Cancel;
    }));
}

TEST_CASE("an agent that beats and never answers is given up when the call's time is over") {
    Node node;
    AgentClient remote(kKey);
    Python python(node, [](Calls&, const Calls::Call&) {});
    auto call = remote.wait(node.local, order("", 300ms), 400ms);
    CHECK(call->result().status().code() == Code::DeadlineMissed);
}

TEST_CASE("what arrived while nobody read is read before silence is concluded") {
    Impostor agent;
    AgentClient remote(kKey);
    auto first = remote.wait(agent.address, order(""), 200ms);
    auto second = remote.wait(agent.address, order(""), 200ms);
    Fd fd = agent.accept();
    CHECK(send_all(fd.get(), frame({.op = Op::Wait, .flags = kReply}, "") +
                                 Impostor::answer(1, "early") + Impostor::answer(2, "too")));
    std::this_thread::sleep_for(500ms);
    CHECK(*first->result() == "early");
    CHECK(second->done());
    CHECK(*second->result() == "too");
}

TEST_CASE("when the connection breaks all its calls fail, and the next dials anew") {
    Impostor agent;
    AgentClient remote(kKey);
    auto first = remote.wait(agent.address, order(""), kDeadline);
    auto second = remote.wait(agent.address, order(""), kDeadline);
    Fd fd = agent.accept();
    auto begin = Clock::now();
    SUBCASE("closed") {
        fd.reset();
    }
    SUBCASE("nonsense") {
        CHECK(send_all(fd.get(), std::string(100, 'x')));
    }
    SUBCASE("another reply") {
        CHECK(send_all(fd.get(), frame({.op = Op::Get, .flags = kReply, .request = 1}, "")));
    }
    SUBCASE("too long a reply") {
        Header header{.op = Op::Wait, .flags = kReply, .request = 1, .body_bytes = kMaxMessage + 1};
        CHECK(send_all(fd.get(), frame(header, "")));
    }
    std::thread other([&] { CHECK_FALSE(second->result().ok()); });
    CHECK_FALSE(first->result().ok());
    CHECK(first->result().status().at() == agent.address);
    other.join();
    CHECK(Clock::now() - begin < kDeadline / 2);
    auto third = remote.wait(agent.address, order(""), kDeadline);
    REQUIRE(third.ok());
    Fd anew = agent.accept();
    CHECK(send_all(anew.get(), Impostor::answer(1, "again")));
    CHECK(*third->result() == "again");
}

TEST_CASE("whoever waits for a call that another thread cancels waits no longer") {
    Impostor agent;
    AgentClient remote(kKey);
    auto call = remote.wait(agent.address, order(""), kDeadline);
    auto other = remote.wait(agent.address, order(""), kDeadline);
    Fd fd = agent.accept();
    TimePoint end{};
    std::thread waits([&] {
        CHECK(call->result().status().message() == "the call was cancelled");
        end = Clock::now();
    });
    std::this_thread::sleep_for(200ms);  // it is the first, so that it watches for both
    std::thread follows([&] {
        auto answer = other->result();
        CHECK((answer.ok() && *answer == "other"));
    });
    std::this_thread::sleep_for(50ms);
    auto begin = Clock::now();
    call->cancel();
    waits.join();
    CHECK(end - begin < kDeadline / 2);
    CHECK(send_all(fd.get(), Impostor::answer(2, "other")));
    follows.join();
    CHECK(Clock::now() - begin < kDeadline / 2);
}

namespace {

std::atomic<bool> held{false}, released{false};

// Holds up the thread that it is sent to, whatever that is in.
void hold(int) {
    held = true;
    for (int i = 0; i < 10'000 && !released; ++i) {
        timespec moment{0, 1'000'000};
        ::nanosleep(&moment, nullptr);
    }
}

}  // namespace

TEST_CASE("no descriptor is closed while a thread polls it") {
    Impostor agent;
    AgentClient remote(kKey);
    auto call = remote.wait(agent.address, order(""), kDeadline);
    auto other = remote.wait(agent.address, order(""), kDeadline);
    Fd fd = agent.accept();
    auto open = open_descriptors();
    held = released = false;
    struct sigaction ours{}, before;
    ours.sa_handler = hold;
    ::sigaction(SIGUSR2, &ours, &before);
    std::thread watches([&] { CHECK_FALSE(call->result().ok()); });
    std::this_thread::sleep_for(200ms);
    ::pthread_kill(watches.native_handle(), SIGUSR2);
    REQUIRE(eventually([&] { return held.load(); }));
    fd.reset();
    CHECK(other->done());  // this thread finds out
    CHECK(open_descriptors() == open - 1);
    released = true;
    watches.join();
    ::sigaction(SIGUSR2, &before, nullptr);
    CHECK(open_descriptors() == open - 3);
}

TEST_CASE("a connection that ends leaves no descriptor, nor one in a forked child") {
    Impostor agent;
    AgentClient remote(kKey);
    auto before = open_descriptors();
    auto call = remote.wait(agent.address, order(""), kDeadline);
    auto connected = open_descriptors();
    CHECK(in_child([&] { return static_cast<int>(connected - open_descriptors()); }) ==
          static_cast<int>(connected - before));
    SUBCASE("by us") {
        call->cancel();
        remote.connections().close_idle();
    }
    SUBCASE("by the agent") {
        agent.accept().reset();
        CHECK_FALSE(call->result().ok());
    }
    CHECK(open_descriptors() == before);
    for (int i = 0; i < 3; ++i) {
        CHECK_FALSE(remote.wait("unix:/nowhere/socket", order(""), kDeadline).ok());
        CHECK(open_descriptors() == before);
    }
}

TEST_CASE("a connection on which nothing waits any more is closed while others are in use") {
    Node node;
    Impostor agent;
    ConnectionPool pool(kKey, {}, 100ms);
    auto wait = [&] { return pool.wait(agent.address, order("").encode(), 60s, kDeadline); };
    auto call = wait();
    REQUIRE(call.ok());
    Fd fd = agent.accept();
    CHECK(receive_some(fd.get(), 4096).size() > 0);
    Question question{.op = Op::Stat, .meta = KeyMessage{"key"}.encode()};
    auto ask = [&] {
        std::this_thread::sleep_for(150ms);
        CHECK(pool.ask(node.local, question, kDeadline).status().code() == Code::NotFound);
    };
    ask();
    CHECK_FALSE(call->done());  // this one is waited for
    CHECK(send_all(fd.get(), Impostor::answer(1, "answer")));
    CHECK(*call->result() == "answer");
    ask();
    char byte;
    timeval limit{5, 0};
    ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    CHECK(::recv(fd.get(), &byte, 1, 0) == 0);
}

TEST_CASE("an answer that does not match its checksum is its call's failure alone") {
    Impostor agent;
    AgentClient remote(kKey);
    auto first = remote.wait(agent.address, order(""), kDeadline);
    auto second = remote.wait(agent.address, order(""), kDeadline);
    Fd fd = agent.accept();
    std::string bad = Impostor::answer(1, "some bytes");
    bad.back() ^= 1;
    CHECK(send_all(fd.get(), bad + Impostor::answer(2, "others")));
    CHECK(first->result().status().code() == Code::Damaged);
    CHECK(*second->result() == "others");
}

TEST_CASE("a connection that rested and was closed meanwhile is nobody's failure") {
    Impostor agent;
    AgentClient remote(kKey);
    auto first = remote.wait(agent.address, order(""), kDeadline);
    Fd fd = agent.accept();
    CHECK(send_all(fd.get(), Impostor::answer(1, "first")));
    CHECK(*first->result() == "first");
    SUBCASE("by the agent") {
        fd.reset();
    }
    SUBCASE("by ourselves") {
        remote.connections().close_idle();
        CHECK(receive_some(fd.get(), 4096).size() > 0);  // the request
        char byte;
        CHECK(::recv(fd.get(), &byte, 1, 0) == 0);
    }
    auto second = remote.wait(agent.address, order(""), kDeadline);
    REQUIRE(second.ok());
    Fd anew = agent.accept();
    CHECK(send_all(anew.get(), Impostor::answer(1, "second")));
    CHECK(*second->result() == "second");
    remote.connections().close_idle();  // `first` and `second` still exist
    CHECK(eventually([&] { return receive_some(anew.get(), 4096).empty(); }));
}

TEST_CASE("a forked child leaves its parent's calls alone, and makes its own") {
    Node node;
    AgentClient remote(kKey);
    Python python(node, [](Calls& calls, const Calls::Call& call) {
        if (call.message != "later") calls.answer(call.id, call.message);
    });
    auto call = remote.wait(node.tcp, order("later"), kDeadline);
    REQUIRE(call.ok());
    std::atomic<bool> done{false};
    std::thread busy([&] {  // in the middle of it at whatever moment
        auto later = remote.wait(node.tcp, order("later"), kDeadline);
        while (!done) CHECK(*remote.wait(node.tcp, order("busy"), kDeadline)->result() == "busy");
    });
    for (int i = 0; i < 10; ++i) {
        int code = in_child([&] {
            if (!call->done()) return 1;
            if (call->result().status().code() != Code::Unavailable) return 2;
            call->cancel();
            PendingCall gone = std::move(*call);
            auto own = remote.wait(node.tcp, order("own"), kDeadline);
            if (!own.ok()) return 3;
            auto answer = own->result();
            return answer.ok() && *answer == "own" ? 0 : 4;
        });
        CHECK(code == 0);
    }
    done = true;
    busy.join();
    CHECK_FALSE(call->done());
}

TEST_CASE("close() ends calls that wait") {
    Node node;
    AgentClient remote(kKey);
    auto call = remote.wait(node.tcp, order(""), kDeadline);
    std::thread closer([&] {
        std::this_thread::sleep_for(50ms);
        remote.connections().close();
    });
    CHECK(call->result().status().code() == Code::Unavailable);
    closer.join();
    CHECK(remote.wait(node.tcp, order(""), kDeadline).status().code() == Code::Unavailable);
}

TEST_CASE("an agent that stops fails the calls that wait for it") {
    Node node;
    AgentClient remote(kKey);
    auto call = remote.wait(node.tcp, order(""), kDeadline);
    std::thread stopper([&] {
        std::this_thread::sleep_for(50ms);
        node.stop();
    });
    CHECK(call->result().status().code() == Code::Unavailable);
    stopper.join();
}
