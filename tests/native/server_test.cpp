// The server under bad company: those who do not read, do not speak, speak too much, or are many.
#include "rpc/server.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "rpc/body.hpp"
#include "support.hpp"

using namespace holdfast;
using namespace holdfast::test;

namespace {

// A body that never grows beyond its first bytes.
class Stuck : public Growing {
  public:
    Progress progress() const override { return {}; }
    void wake_beyond(std::uint64_t, std::function<void()>) override { ++waits; }
    FileSlice file() const override { return {nullptr, 0, 1000, false}; }
    std::atomic<int> waits{0};
};

// Answers a get with its key, and a fill with a file that does not grow.
class Echo : public Handler {
  public:
    Outcome handle(Request request) override {
        Answer answer;
        if (request.header.op == Op::Read) {
            answer.body = std::shared_ptr<Growing>(stuck);
        } else {
            answer.meta = request.meta;
        }
        return answer;
    }
    std::shared_ptr<Stuck> stuck = std::make_shared<Stuck>();
};

// Answers gets on threads that linger, stats at once and drops on another lane's threads.
class Lingering : public Handler {
  public:
    Outcome handle(Request request) override {
        auto echo = [meta = request.meta](Body&) {
            Answer answer;
            answer.meta = meta;
            return answer;
        };
        if (request.header.op == Op::Drop) return Blocking{1, echo};
        if (request.header.op == Op::Get) return Blocking{0, echo, true};
        Answer answer;
        answer.meta = request.meta;
        return answer;
    }
};

template <typename Answers = Echo>
struct EchoServer {
    explicit EchoServer(ServerOptions options) : server(echo, std::move(options)) {
        address = "unix:" + (dir / "socket");
        REQUIRE(server.listen(address).ok());
        auto bound = server.listen("tcp:127.0.0.1:0");
        REQUIRE(bound.ok());
        tcp = *bound;
        server.start();
    }
    Status ask(ConnectionPool& pool) {
        auto reply = pool.ask(address, {.op = Op::Get, .meta = "hello"}, kDeadline);
        if (!reply.ok()) return reply.take_status();
        CHECK(reply->meta() == "hello");
        return {};
    }
    TempDir dir;
    Answers echo;
    Server server;
    std::string address, tcp;
};

bool closed_by_peer(const Fd& fd) {
    return eventually([&] {
        char byte;
        auto got = ::recv(fd.get(), &byte, 1, MSG_DONTWAIT);
        return got == 0 || (got < 0 && errno == ECONNRESET);
    });
}

}  // namespace

TEST_CASE("one who never reads its answers stalls nobody") {
    Node node;
    AgentClient remote(kKey);
    std::string large = random_bytes(4 << 20, 1), small = random_bytes(100'000, 2);
    REQUIRE(remote.put({node.local}, {node.number}, "large", large, Tier::Memory, kDeadline).ok());
    REQUIRE(remote.put({node.local}, {node.number}, "disk", large, Tier::Disk, kDeadline).ok());
    REQUIRE(remote.put({node.local}, {node.number}, "small", small, Tier::Memory, kDeadline).ok());
    std::vector<Fd> deaf;  // more than there are network threads, and more than once
    for (std::string key : {"large", "disk"}) {
        for (int i = 0; i < 10; ++i) {
            deaf.push_back(raw_connection(node.local));
            for (int again = 0; again < 3; ++again)
                send_all(deaf.back().get(), frame({.op = Op::Get}, GetMessage{key}.encode()));
        }
    }
    for (int i = 0; i < 50; ++i) {
        auto got = get(remote, i % 2 ? node.tcp : node.local, {"small"});
        REQUIRE(got.ok());
        CHECK(*got == small);
    }
    // One of them begins to read after all: three whole answers.
    std::size_t received = 0;
    while (received < 3 * (large.size() + kHeaderBytes)) {
        std::string more = receive_some(deaf.front().get(), 1 << 20);
        if (more.empty()) break;
        received += more.size();
    }
    CHECK(received > 3 * (large.size() + kHeaderBytes));
}

TEST_CASE("memory stays bounded whatever a thousand clients push") {
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);
    Node node;
    std::size_t clients = std::min<std::size_t>(1000, (limit.rlim_max - 100) / 3);

    Header put{.op = Op::Put, .body_bytes = 60'000, .deadline_ms = 300};
    Header call{.op = Op::Call, .body_bytes = 16 << 20, .deadline_ms = 300};
    Header stream{.op = Op::Put,
                  .flags = kAskFirst | kCrcFollows,
                  .body_bytes = 100 << 20,
                  .deadline_ms = 300};
    std::string half_body(30'000, 'x'), long_meta(60'000, 'm');
    const std::string pushes[] = {
        frame({.op = Op::Get}, long_meta).substr(0, 50'000),
        frame(put, PutMessage{"a", Tier::Memory, {node.number}}.encode(), half_body),
        frame(call, CallMessage{"s", "m"}.encode(), half_body),
        frame(stream, PutMessage{"b", Tier::Memory, {node.number}}.encode(), half_body),
    };
    std::size_t before = heap_bytes(), most = 0;
    std::vector<Fd> crowd;
    for (std::size_t i = 0; i < clients; ++i) {
        crowd.push_back(raw_connection(node.local));
        ::fcntl(crowd.back().get(), F_SETFL, O_NONBLOCK);
        send_all(crowd.back().get(), pushes[i % 4]);
        most = std::max(most, heap_bytes());
    }
    for (int i = 0; i < 20; ++i) {
        most = std::max(most, heap_bytes());
        std::this_thread::sleep_for(5ms);
    }
    // One head of a request for each, and a piece of a body for each thread of the pool.
    CHECK(most - before < clients * (80 << 10) + 3 * 32 * (600 << 10));
    AgentClient remote(kKey);
    CHECK(remote.put({node.local}, {node.number}, "good", half_body, Tier::Memory, kDeadline).ok());
    crowd.clear();
    CHECK(eventually([&] { return node.agent().server().traffic().connections <= 1; }));
    CHECK(node.store().usage(Tier::Memory).reserved == 0);
}

TEST_CASE("connections that rest or stop halfway are closed") {
    EchoServer<> server(
        {.job_key = kKey, .silence = {.resting = 2s, .unfinished = 200ms, .stranger = 200ms}});
    std::string request = frame({.op = Op::Get}, "hello");
    Fd resting = raw_connection(server.address);
    Fd halfway = raw_connection(server.address);
    send_all(halfway.get(), request.substr(0, 20));
    Fd stranger = raw_connection(server.tcp);
    std::atomic<bool> done{false};
    std::thread trickle([&] {  // a handshake is not prolonged by a byte now and then
        while (!done && ::send(stranger.get(), "x", 1, MSG_NOSIGNAL) == 1)
            std::this_thread::sleep_for(100ms);
    });
    CHECK(closed_by_peer(halfway));
    receive_some(stranger.get(), kChallengeBytes);
    CHECK(closed_by_peer(stranger));
    CHECK(server.server.traffic().refused == 0);  // for its silence, not for what it said at last
    done = true;
    trickle.join();
    CHECK(closed_by_peer(resting));
    CHECK(eventually([&] { return server.server.traffic().connections == 0; }));
}

TEST_CASE("one who leaves while its file does not grow costs nothing more") {
    EchoServer<> server({.job_key = kKey});
    Fd waiting = raw_connection(server.address);
    send_all(waiting.get(), frame({.op = Op::Read}, ""));
    CHECK(eventually([&] { return server.echo.stuck->waits == 1; }));
    waiting.reset();
    CHECK(eventually([&] { return server.server.traffic().connections == 0; }));
    CHECK(server.echo.stuck->waits <= 2);
}

TEST_CASE("there are no more connections than allowed") {
    EchoServer<> server({.job_key = kKey, .max_connections = 3});
    std::vector<Fd> taken;
    for (int i = 0; i < 3; ++i) {
        taken.push_back(raw_connection(server.address));
        send_all(taken.back().get(), frame({.op = Op::Get}, "hello"));
        CHECK_FALSE(receive_some(taken.back().get(), 1000).empty());
    }
    ConnectionPool pool(kKey);
    CHECK(server.ask(pool).code() == Code::Unavailable);
    CHECK(server.server.traffic().refused == 1);
    taken.pop_back();
    CHECK(eventually([&] { return server.server.traffic().connections == 2; }));
    CHECK(server.ask(pool).ok());
}

TEST_CASE("a program waits for an agent that is slow to let it in, and not for ever") {
    TempDir dir;
    auto made = Agent::make({kKey, {{{dir / "mem", 1 << 20, true}, {dir / "disk", 1 << 20}}}, 0});
    REQUIRE(made.ok());
    Agent& agent = **made;
    auto tcp = agent.server().listen("tcp:127.0.0.1:0");
    REQUIRE(tcp.ok());
    agent.set_self(1);
    AgentClient remote(kKey);
    auto ask = [&] { return remote.get(*tcp, {"key"}, false, kDeadline).status().code(); };
    auto begin = Clock::now();
    CHECK(ask() == Code::DeadlineMissed);
    CHECK(Clock::now() - begin < kDeadline / 2);
    std::thread late([&] {
        std::this_thread::sleep_for(1300ms);
        agent.server().start();
    });
    CHECK(ask() == Code::NotFound);
    late.join();
}

TEST_CASE("silent strangers have a quarter of the places, and the oldest goes for the next") {
    EchoServer<> server({.job_key = kKey, .max_connections = 32});
    ConnectionPool pool(kKey);
    std::vector<Fd> strangers;
    for (int i = 0; i < 40; ++i) {
        strangers.push_back(raw_connection(server.tcp));
        CHECK(receive_some(strangers.back().get(), 1000).size() == kChallengeBytes);
    }
    CHECK(eventually([&] { return server.server.traffic().connections == 8; }));
    for (std::size_t i = 0; i < 32; ++i) CHECK(closed_by_peer(strangers[i]));
    char byte;
    for (std::size_t i = 32; i < 40; ++i)
        CHECK(::recv(strangers[i].get(), &byte, 1, MSG_DONTWAIT) == -1);  // still there
    CHECK(server.server.traffic().refused == 32);

    // Those who prove themselves make place for the next stranger, up to seven eighths of all.
    std::vector<Channel> proven;
    auto prove = [&] {
        auto address = Address::parse(server.tcp);
        proven.push_back(std::move(*Channel::open(*address)));
        return proven.back().connect(*address, kKey, kDeadline);
    };
    for (int i = 0; i < 28; ++i) CHECK(prove().ok());
    CHECK_FALSE(prove().ok());
    CHECK(server.ask(pool).ok());  // the rest is for Unix sockets
    CHECK(eventually([&] { return server.server.traffic().connections == 29; }));
}

TEST_CASE("there are no more connections than half of the open files allowed") {
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    rlimit low{256, limit.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &low);
    {
        EchoServer<> server({.job_key = kKey});
        std::vector<Fd> strangers;
        for (int i = 0; i < 60; ++i) strangers.push_back(raw_connection(server.tcp));
        CHECK(eventually([&] { return server.server.traffic().refused == 60 - 128 / 4; }));
    }
    ::setrlimit(RLIMIT_NOFILE, &limit);
}

TEST_CASE_TEMPLATE("a burst of requests in one go is answered whole, in order", Answers, Echo,
                   Lingering) {
    EchoServer<Answers> server({.job_key = kKey, .lanes = 2});
    Fd fd = raw_connection(server.address);
    std::string burst, answers;
    Op kinds[] = {Op::Get, Op::Get, Op::Stat, Op::Get, Op::Drop};
    for (std::uint64_t i = 0; i < 500; ++i)
        burst += frame({.op = kinds[i % 5], .request = i}, std::to_string(i));
    std::thread sender([&] { CHECK(send_all(fd.get(), burst)); });
    std::uint64_t next = 0;
    while (next < 500) {
        std::string more = receive_some(fd.get(), 1 << 16);
        REQUIRE_FALSE(more.empty());
        answers += more;
        while (answers.size() >= kHeaderBytes) {
            auto header = decode_header(answers.data());
            REQUIRE(header.ok());
            std::size_t size = kHeaderBytes + header->meta_bytes;
            if (answers.size() < size) break;
            CHECK(header->request == next);
            CHECK(answers.substr(kHeaderBytes, header->meta_bytes) == std::to_string(next));
            ++next;
            answers.erase(0, size);
        }
    }
    sender.join();
}

TEST_CASE("threads that linger are not in the way of others, nor of the end") {
    EchoServer<Lingering> server({.job_key = kKey, .lanes = 2, .threads_per_lane = 4});
    std::vector<std::thread> clients;
    std::atomic<int> answered{0};
    for (int i = 0; i < 16; ++i)
        clients.emplace_back([&] {
            ConnectionPool pool(kKey);
            for (int request = 0; request < 50; ++request) answered += server.ask(pool).ok();
        });
    for (auto& client : clients) client.join();
    CHECK(answered == 16 * 50);
    Fd malformed = raw_connection(server.address);
    CHECK(send_all(malformed.get(), frame({.op = Op::Get}, "x") + std::string(100, 'x')));
    char head[kHeaderBytes + 1];
    CHECK(::recv(malformed.get(), head, sizeof head, MSG_WAITALL) == sizeof head);
    CHECK(closed_by_peer(malformed));
    CHECK(server.server.traffic().refused == 1);
    ConnectionPool pool(kKey);
    CHECK(server.ask(pool).ok());
}

TEST_CASE("a server out of descriptors waits for some, and goes on") {
    EchoServer<> server({.job_key = kKey});
    ConnectionPool pool(kKey);
    REQUIRE(server.ask(pool).ok());  // has its connection already
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    Fd waiting(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    rlimit low{static_cast<rlim_t>(waiting.get()) + 1, limit.rlim_max};
    std::vector<Fd> holes;  // numbers below the limit that are still free
    ::setrlimit(RLIMIT_NOFILE, &low);
    while (true) {
        Fd hole(::open("/dev/null", O_RDONLY | O_CLOEXEC));
        if (!hole) break;
        holes.push_back(std::move(hole));
    }
    auto address = Address::parse(server.address);
    REQUIRE(::connect(waiting.get(), address->get(), address->size) == 0);
    send_all(waiting.get(), frame({.op = Op::Get}, "hello"));
    CHECK(server.ask(pool).ok());  // those who are in are served
    CHECK(server.server.traffic().connections == 1);
    ::setrlimit(RLIMIT_NOFILE, &limit);
    holes.clear();
    CHECK(eventually([&] { return server.server.traffic().connections == 2; }));
    CHECK_FALSE(receive_some(waiting.get(), 1000).empty());
}

TEST_CASE("a malformed frame ends its own connection only") {
    Node node;
    AgentClient remote(kKey);
    REQUIRE(remote.put({node.local}, {node.number}, "key", "bytes", Tier::Memory, kDeadline).ok());
    std::string good = frame({.op = Op::Stat}, KeyMessage{"key"}.encode());
    std::vector<std::string> bad(7, good);
    bad[0][0] = 'X';                                                       // magic
    bad[1][4] = 2;                                                         // version
    bad[2][5] = 99;                                                        // operation
    bad[3][15] = 1;                                                        // length of the meta
    bad[4].back() ^= 1;                                                    // meta
    bad[5] = frame({.op = Op::Stat, .flags = kReply}, "");                 // a reply
    bad[6] = frame({.op = Op::Stat, .body_bytes = 10}, "", "0123456789");  // a body
    std::uint64_t refused = 0;
    for (auto& bytes : bad) {
        Fd fd = raw_connection(node.local);
        send_all(fd.get(), bytes);
        CHECK(receive_some(fd.get(), 1000).empty());
        CHECK(node.agent().server().traffic().refused == ++refused);
    }
    Fd truncated = raw_connection(node.local);
    send_all(truncated.get(), good.substr(0, 30));
    ::shutdown(truncated.get(), SHUT_WR);
    CHECK(receive_some(truncated.get(), 1000).empty());
    // A request that is whole but makes no sense is answered, and the connection goes on.
    Fd fd = raw_connection(node.local);
    send_all(fd.get(), frame({.op = Op::Stat}, "nonsense"));
    CHECK(decode_header(receive_some(fd.get(), 1000).data())->status == Code::Damaged);
    send_all(fd.get(), good);
    CHECK(decode_header(receive_some(fd.get(), 1000).data())->status == Code::Ok);
    CHECK(*get(remote, node.local, {"key"}) == "bytes");
}

TEST_CASE("stopping an agent ends those who wait for others, at once") {
    Node silent, node;
    // `node` passes a put on to one who accepts the connection and says nothing more.
    Fd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    TempDir dir;
    auto address = Address::parse("unix:" + (dir / "socket"));
    REQUIRE(::bind(listener.get(), address->get(), address->size) == 0);
    REQUIRE(::listen(listener.get(), 1) == 0);
    AgentClient remote(kKey);
    agree({&node, &silent});
    std::string key = key_of({&node, &silent});
    std::thread client([&] {
        Status status = remote.put({node.local, address->text}, {node.number, silent.number}, key,
                                   "bytes", Tier::Memory, kDeadline);
        CHECK_FALSE(status.ok());
    });
    Fd accepted(::accept(listener.get(), nullptr, nullptr));
    auto before = Clock::now();
    node.stop();
    CHECK(Clock::now() - before < kDeadline / 2);
    client.join();
}
