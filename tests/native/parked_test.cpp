// Parked calls at the agent: many on one connection, answered late, in any order, or never.
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <set>

#include "rpc/parked_requests.hpp"
#include "rpc/server.hpp"
#include "support.hpp"

using namespace holdfast;
using namespace holdfast::test;

namespace {

std::string wait_frame(std::uint64_t request, const std::string& message,
                       Duration silence = kDeadline) {
    auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(silence).count();
    Header header{
        .op = Op::Wait, .request = request, .deadline_ms = static_cast<std::uint32_t>(ms)};
    return frame(header, WaitMessage{"service", "method", message, 60s}.encode());
}

// The replies on a raw connection, one by one; heartbeats are counted.
class Replies {
  public:
    explicit Replies(const Fd& fd) : fd_(fd) {}

    struct Reply {
        Header header;
        std::string meta, body;
    };
    std::optional<Reply> next() {
        for (auto end = Clock::now() + kDeadline; Clock::now() < end;) {
            if (auto reply = parse()) {
                if (reply->header.request != 0) return reply;
                ++heartbeats;
                continue;
            }
            char piece[64 << 10];
            auto got = ::recv(fd_.get(), piece, sizeof piece, 0);
            if (got == 0 || (got < 0 && errno != EAGAIN)) return std::nullopt;
            if (got > 0) input_.append(piece, static_cast<std::size_t>(got));
        }
        return std::nullopt;
    }
    // Takes what comes for a while.
    void listen(Duration time) {
        timeval moment{0, 10'000};
        ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &moment, sizeof moment);
        for (auto end = Clock::now() + time; Clock::now() < end;) {
            input_ += receive_some(fd_.get(), 4096);
            while (auto reply = parse()) heartbeats += reply->header.request == 0;
        }
    }
    int heartbeats = 0;

  private:
    std::optional<Reply> parse() {
        if (input_.size() < kHeaderBytes) return std::nullopt;
        auto header = decode_header(input_.data());
        REQUIRE(header.ok());
        CHECK(header->op == Op::Wait);
        CHECK(header->has(kReply));
        std::size_t size = kHeaderBytes + header->meta_bytes + header->body_bytes;
        if (input_.size() < size) return std::nullopt;
        Reply reply{*header, input_.substr(kHeaderBytes, header->meta_bytes),
                    input_.substr(kHeaderBytes + header->meta_bytes, header->body_bytes)};
        CHECK(head_is_whole(input_.data(), reply.meta));
        CHECK(crc32c(0, reply.body.data(), reply.body.size()) == header->body_crc);
        input_.erase(0, size);
        return reply;
    }
    const Fd& fd_;
    std::string input_;
};

bool closed_by_peer(const Fd& fd) {
    return eventually([&] {
        char piece[4096];
        auto got = ::recv(fd.get(), piece, sizeof piece, MSG_DONTWAIT);
        return got == 0 || (got < 0 && errno == ECONNRESET);
    });
}

// The next call that Python would get.
Calls::Call taken(Node& node) {
    std::optional<Calls::Call> call;
    REQUIRE(eventually([&] { return (call = node.agent().calls().next()).has_value(); }));
    return *call;
}

bool cancelled(Node& node, std::set<std::uint64_t> expected) {
    return eventually([&] {
        for (auto id : node.agent().calls().take_cancelled()) expected.erase(id);
        return expected.empty();
    });
}

}  // namespace

TEST_CASE("parked calls of one connection are answered in any order, others beside them") {
    Node node;
    auto& calls = node.agent().calls();
    Fd fd = raw_connection(node.local);
    Replies replies(fd);
    for (std::uint64_t request : {7, 8, 9})
        CHECK(send_all(fd.get(), wait_frame(request, std::to_string(request))));
    std::map<std::string, std::uint64_t> ids;
    for (int i = 0; i < 3; ++i) {
        auto call = taken(node);
        CHECK(call.service == "service");
        CHECK(call.method == "method");
        CHECK(call.within == Duration(60s));
        ids[call.message] = call.id;
    }
    calls.answer(ids["9"], std::string("nine"));
    calls.answer(ids["7"], Status(Code::NotFound, "no seven"));
    auto first = replies.next(), second = replies.next();
    REQUIRE((first && second));
    CHECK(first->header.request == 9);
    CHECK(first->body == "nine");
    CHECK(second->header.request == 7);
    CHECK(second->header.status == Code::NotFound);
    CHECK(second->meta.find("no seven") != std::string::npos);
    // Another comes while one is still parked, and large answers go over in pieces.
    CHECK(send_all(fd.get(), wait_frame(10, "10")));
    std::string large = random_bytes(3 << 20, 1);
    calls.answer(taken(node).id, large);
    calls.answer(ids["8"], std::string());
    auto third = replies.next(), fourth = replies.next();
    REQUIRE((third && fourth));
    CHECK(third->body == large);
    CHECK(fourth->header.request == 8);
    CHECK(fourth->header.status == Code::Ok);
    CHECK(calls.take_cancelled().empty());
}

TEST_CASE("a call that is cancelled before Python took it never reaches it") {
    Node node;
    auto& calls = node.agent().calls();
    Fd fd = raw_connection(node.local);
    Header cancel{.op = Op::Cancel, .request = 1};
    CHECK(send_all(fd.get(), wait_frame(1, "first") + frame(cancel, "") + wait_frame(2, "second")));
    auto call = taken(node);
    CHECK(call.message == "second");
    CHECK_FALSE(calls.next().has_value());
    CHECK(calls.take_cancelled().empty());

    // An answer that crosses a cancellation disturbs nobody.
    CHECK(send_all(fd.get(), wait_frame(3, "third")));
    auto third = taken(node);
    CHECK(third.message == "third");
    cancel.request = 3;
    CHECK(send_all(fd.get(), frame(cancel, "") + frame(cancel, "")));
    CHECK(cancelled(node, {third.id}));
    calls.answer(third.id, std::string("too late"));
    calls.answer(call.id, std::string("in time"));
    auto reply = Replies(fd).next();
    REQUIRE(reply);
    CHECK(reply->header.request == 2);
    CHECK(reply->body == "in time");
}

TEST_CASE("when its caller goes, a call is cancelled, however it went") {
    Node node;
    std::set<std::uint64_t> ids;
    SUBCASE("closed") {
        Fd fd = raw_connection(node.local);
        CHECK(send_all(fd.get(), wait_frame(1, "a") + wait_frame(2, "b")));
        ids = {taken(node).id, taken(node).id};
    }
    SUBCASE("killed") {
        pid_t pid = ::fork();
        REQUIRE(pid >= 0);
        if (pid == 0) {
            AgentClient remote(kKey);
            auto pending = remote.wait(node.tcp, {"s", "m", "", 60s}, kDeadline);
            (void)pending->result();
            ::_exit(0);
        }
        ids = {taken(node).id};
        ::kill(pid, SIGKILL);
        ::waitpid(pid, nullptr, 0);
    }
    CHECK(cancelled(node, ids));
    CHECK(eventually([&] { return node.agent().server().traffic().connections == 0; }));
}

TEST_CASE("a waiting connection carries nothing else, and nonsense ends it alone") {
    Node node;
    AgentClient remote(kKey);
    auto good = remote.wait(node.local, {"s", "good", "", 60s}, kDeadline);
    REQUIRE(good.ok());
    auto id = taken(node).id;
    std::string nonsense(200, 'x'), again = wait_frame(1, "again");
    Header body{.op = Op::Wait, .request = 2, .body_bytes = 5};
    std::uint64_t refused = 0;
    for (const std::string& wrong :
         {nonsense, again, wait_frame(0, "zero"),
          frame(body, WaitMessage{"s", "m", "", 1s}.encode(), "bytes"),
          frame({.op = Op::Stat, .request = 3}, KeyMessage{"key"}.encode()),
          frame({.op = Op::Call, .request = 3}, CallMessage{"s", "m"}.encode())}) {
        Fd fd = raw_connection(node.local);
        CHECK(send_all(fd.get(), wait_frame(1, "parked")));
        auto call = taken(node);
        CHECK(send_all(fd.get(), wrong));
        CHECK(closed_by_peer(fd));
        CHECK(cancelled(node, {call.id}));
        CHECK(node.agent().server().traffic().refused == ++refused);
    }
    // What is wrong with one request only is told to that one.
    Fd fd = raw_connection(node.local);
    CHECK(send_all(fd.get(), frame({.op = Op::Wait, .request = 1}, "no message")));
    auto reply = Replies(fd).next();
    REQUIRE(reply);
    CHECK(reply->header.status == Code::Damaged);
    CHECK(node.agent().server().traffic().refused == refused);
    CHECK_FALSE(good->done());
    node.agent().calls().answer(id, std::string("good"));
    CHECK(*good->result() == "good");
}

TEST_CASE("one who does not read its answers is cut off, and stalls nobody") {
    Node node;
    auto& calls = node.agent().calls();
    AgentClient remote(kKey);
    Fd deaf = raw_connection(node.local);
    std::set<std::uint64_t> ids;
    auto park = [&](int count, Duration silence) {
        for (int request = 1; request <= count; ++request) {
            CHECK(send_all(deaf.get(),
                           wait_frame(static_cast<std::uint64_t>(request), "deaf", silence)));
            ids.insert(taken(node).id);
        }
    };
    auto answer = [&](std::size_t size) {
        calls.answer(*ids.begin(), random_bytes(size, 1));
        ids.erase(ids.begin());
        auto other = remote.wait(node.local, {"s", "m", "", 60s}, kDeadline);
        REQUIRE(other.ok());
        calls.answer(taken(node).id, std::string("heard"));
        CHECK(*other->result() == "heard");
    };
    auto& traffic = node.agent().server().traffic();
    SUBCASE("after the silence that it bears") {
        park(10, 300ms);
        for (int i = 0; i < 3; ++i) answer(1 << 20);
        std::this_thread::sleep_for(500ms);
        answer(1 << 20);  // fewer than 4 MiB were unread
        answer(1 << 20);
        CHECK(traffic.refused == 0);
        CHECK(
            send_all(deaf.get(), frame({.op = Op::Cancel, .request = 10}, "")));  // not deaf enough
        REQUIRE(cancelled(node, {*ids.rbegin()}));
        ids.erase(*ids.rbegin());
        answer(1);
    }
    SUBCASE("at once, if too many are unread") {
        park(8, kDeadline);
        for (int i = 0; i < 5; ++i) answer(kMaxMessage);
        CHECK(traffic.refused == 0);
        answer(1);
    }
    CHECK(eventually([&] { return traffic.refused == 1; }));
    CHECK(cancelled(node, ids));
}

TEST_CASE("one who reads gets all answers that are due at once, however many") {
    Node node;
    auto& calls = node.agent().calls();
    std::uint64_t count = 0;
    std::size_t size = 0;
    SUBCASE("small ones") {
        count = 1000;
        size = 20'000;
    }
    SUBCASE("large ones") {
        count = 4;
        size = 3 << 20;
    }
    Fd fd = raw_connection(node.local);
    for (std::uint64_t request = 1; request <= count; ++request)
        CHECK(send_all(fd.get(), wait_frame(request, "x")));
    std::vector<std::uint64_t> ids;
    while (ids.size() < count) ids.push_back(taken(node).id);
    std::string bytes = random_bytes(size, 1);
    for (auto id : ids) calls.answer(id, bytes);  // before any is read
    Replies replies(fd);
    for (std::uint64_t request = 1; request <= count; ++request) {
        auto reply = replies.next();
        REQUIRE(reply);
        CHECK(reply->header.request == request);
        CHECK(reply->body == bytes);
    }
}

TEST_CASE("an answer that is too long is its call's failure alone") {
    Node node;
    auto& calls = node.agent().calls();
    AgentClient remote(kKey);
    auto large = remote.wait(node.local, {"s", "large", "", 60s}, kDeadline);
    auto largest = remote.wait(node.local, {"s", "largest", "", 60s}, kDeadline);
    auto neighbour = remote.wait(node.local, {"s", "neighbour", "", 60s}, kDeadline);
    calls.answer(taken(node).id, std::string(kMaxMessage + 1, 'x'));
    calls.answer(taken(node).id, std::string(kMaxMessage, 'x'));
    CHECK(large->result().status().code() == Code::BadInput);
    CHECK(large->result().status().message() ==
          "an answer of 16777217 bytes; the limit is 16777216");
    CHECK(largest->result()->size() == kMaxMessage);
    CHECK_FALSE(neighbour->done());
    calls.answer(taken(node).id, std::string("served"));
    CHECK(*neighbour->result() == "served");
}

TEST_CASE("there are no more parked calls than allowed") {
    SUBCASE("on a connection") {
        Node node;
        Fd fd = raw_connection(node.local);
        std::string many;
        for (std::uint64_t request = 1; request <= 1025; ++request)
            many += wait_frame(request, "x");
        CHECK(send_all(fd.get(), many));
        Replies replies(fd);
        auto reply = replies.next();
        REQUIRE(reply);
        CHECK(reply->header.request == 1025);
        CHECK(reply->header.status == Code::Busy);
        node.agent().calls().answer(taken(node).id, std::string());
        REQUIRE(replies.next());
        CHECK(send_all(fd.get(), wait_frame(1026, "x")));  // there is room again
        std::size_t count = 1;
        CHECK(
            eventually([&] { return (count += node.agent().calls().next().has_value()) == 1025; }));
    }
    SUBCASE("in all") {
        Calls calls;
        auto park = [&](const std::string& message) {
            return calls.park("s", "m", message, 60s, [](const Result<std::string>&) {});
        };
        for (int i = 0; i < 65'536; ++i) REQUIRE(park("").ok());
        CHECK(park("").status().code() == Code::Busy);
        calls.cancel(1);
        CHECK(park("").ok());
    }
    SUBCASE("bytes that Python did not take") {
        Calls calls;
        std::string message(64 << 10, 'x');
        int parked = 0;
        while (calls.park("s", "m", message, 60s, [](const Result<std::string>&) {}).ok()) ++parked;
        CHECK(parked > 1000);
        CHECK(parked < 1100);
        CHECK(calls.next()->message == message);
    }
}

TEST_CASE("closing fails parked calls, and those to come") {
    Calls calls;
    std::vector<Code> ends;
    auto park = [&] {
        return calls.park("s", "m", "", 60s, [&](const Result<std::string>& result) {
            ends.push_back(result.status().code());
        });
    };
    REQUIRE(park().ok());
    auto id = calls.next()->id;
    REQUIRE(park().ok());
    calls.close();
    CHECK(ends == std::vector{Code::Unavailable, Code::Unavailable});
    calls.answer(id, std::string());  // as nobody waits any more
    calls.cancel(id);
    CHECK(calls.take_cancelled().empty());
    CHECK(park().status().code() == Code::Unavailable);
}

TEST_CASE("heartbeats come while a call is parked, and cease when Python is stuck") {
    Node node;
    auto& probes = node.agent().probes();
    auto beat = [&] {
        probes.beat();
        probes.beat();  // so that it is expected at once
    };
    beat();
    Fd fd = raw_connection(node.local);
    Replies replies(fd);
    CHECK(send_all(fd.get(), wait_frame(1, "", 200ms)));
    auto call = taken(node);
    for (int i = 0; i < 20; ++i) {  // far beyond what its peer bears
        replies.listen(50ms);
        beat();
    }
    CHECK(replies.heartbeats >= 8);
    replies.listen(1s);  // the last ones, for as long as its beats do not count as overdue
    replies.heartbeats = 0;
    replies.listen(500ms);
    CHECK(replies.heartbeats == 0);
    beat();
    replies.listen(200ms);
    CHECK(replies.heartbeats >= 1);
    // Without a call there is nothing to be said.
    node.agent().calls().answer(call.id, std::string());
    REQUIRE(replies.next());
    replies.heartbeats = 0;
    beat();
    replies.listen(300ms);
    CHECK(replies.heartbeats == 0);
}

TEST_CASE("heartbeats come as the least patient call of a connection needs them") {
    ParkedRequests parked;
    const TimePoint now{};
    parked.add(1, 60s, now, [] {});
    CHECK(parked.heartbeat_due() == now + 15s);
    parked.add(2, 200ms, now + 1s, [] {});
    CHECK(parked.silence() == 200ms);
    CHECK(parked.heartbeat_due() == now + 1s + 50ms);
    parked.add(3, 60s, now + 1s, [] {});
    CHECK(parked.silence() == 200ms);
}

TEST_CASE("a Python loop counts as overdue only beyond its usual pause") {
    Node node;
    auto& probes = node.agent().probes();
    std::this_thread::sleep_for(50ms);
    CHECK(probes.overdue() >= 50ms);  // it has not beaten at all
    probes.beat();
    CHECK(probes.overdue() == Duration());
    probes.beat();
    std::this_thread::sleep_for(20ms);
    CHECK(probes.overdue() > 10ms);
}

namespace {

// Parks what waits for ever, and lets threads linger over gets.
class ParkingLot : public Handler {
  public:
    Outcome handle(Request request) override {
        if (request.header.op == Op::Get) return Blocking{0, [](Body&) { return Answer(); }, true};
        return Parked{[this](Parked::Reply reply) {
            std::lock_guard lock(mutex);
            replies.push_back(std::move(reply));
            return Result<Parked::Cancel>([this] { ++cancelled; });
        }};
    }
    void answer(const std::string& text) {
        std::lock_guard lock(mutex);
        for (auto& reply : std::exchange(replies, {})) reply(text);
    }
    std::size_t parked() {
        std::lock_guard lock(mutex);
        return replies.size();
    }
    std::mutex mutex;
    std::vector<Parked::Reply> replies;
    std::atomic<int> cancelled{0};
};

}  // namespace

TEST_CASE("no sweep closes a connection on which a call is parked") {
    TempDir dir;
    ParkingLot lot;
    Server server(lot, {.job_key = kKey, .silence = {.resting = 200ms, .unfinished = 200ms}});
    std::string address = "unix:" + (dir / "socket");
    REQUIRE(server.listen(address).ok());
    server.start();
    Fd rests = raw_connection(address), waits = raw_connection(address);
    CHECK(send_all(rests.get(), wait_frame(1, "")));
    CHECK(eventually([&] { return lot.parked() == 1; }));
    lot.answer("first");
    CHECK(Replies(rests).next()->body == "first");
    // Its peer says nothing and reads nothing; nor has it sent its next request whole.
    CHECK(send_all(waits.get(), wait_frame(1, "") + wait_frame(2, "").substr(0, 20)));
    CHECK(eventually([&] { return lot.parked() == 1; }));
    CHECK(closed_by_peer(rests));
    lot.answer("second");
    CHECK(Replies(waits).next()->body == "second");
    CHECK(lot.cancelled == 0);
    CHECK(closed_by_peer(waits));
}

TEST_CASE("a call that waits may follow a request over which a thread lingers") {
    TempDir dir;
    ParkingLot lot;
    Server server(lot, {.job_key = kKey});
    std::string address = "unix:" + (dir / "socket");
    REQUIRE(server.listen(address).ok());
    server.start();
    std::vector<Fd> crowd;
    for (int i = 0; i < 10; ++i) {
        crowd.push_back(raw_connection(address));
        CHECK(send_all(crowd.back().get(),
                       frame({.op = Op::Get}, "") + wait_frame(1, "") + wait_frame(2, "")));
        char head[kHeaderBytes];  // of the get's answer
        CHECK(::recv(crowd.back().get(), head, sizeof head, MSG_WAITALL) == sizeof head);
    }
    CHECK(eventually([&] { return lot.parked() == 20; }));
    lot.answer("late");
    for (auto& fd : crowd) {
        Replies replies(fd);
        for (int i = 0; i < 2; ++i) {
            auto reply = replies.next();
            REQUIRE(reply);
            CHECK(reply->body == "late");
        }
    }
}

TEST_CASE("a server that stops cancels what is parked") {
    TempDir dir;
    ParkingLot lot;
    Server server(lot, {.job_key = kKey});
    std::string address = "unix:" + (dir / "socket");
    REQUIRE(server.listen(address).ok());
    server.start();
    Fd fd = raw_connection(address);
    CHECK(send_all(fd.get(), wait_frame(1, "")));
    CHECK(eventually([&] { return lot.parked() == 1; }));
    server.stop();
    CHECK(lot.cancelled == 1);
    lot.answer("to nobody");
}
