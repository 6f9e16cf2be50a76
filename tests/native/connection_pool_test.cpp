// The client's pool of connections: threads, forks, agents that come back, and a clean end.
#include "rpc/connection_pool.hpp"

#include <sys/resource.h>

#include <atomic>
#include <set>
#include <thread>

#include "support.hpp"

using namespace holdfast;
using namespace holdfast::test;

namespace {

// The sockets of this process, as "socket:[INODE]".
std::set<std::string> sockets() {
    std::set<std::string> found;
    for (auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
        std::error_code closed;
        auto target = std::filesystem::read_symlink(entry.path(), closed).string();
        if (target.starts_with("socket:")) found.insert(target);
    }
    return found;
}

}  // namespace

TEST_CASE("many threads share a client") {
    Node node;
    AgentClient remote(kKey);
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; ++t) {
        threads.emplace_back([&, t] {
            for (int i = 0; i < 30; ++i) {
                std::string key = std::to_string(t) + "/" + std::to_string(i);
                std::string bytes = random_bytes(static_cast<std::size_t>(1 + i * 5000),
                                                 static_cast<std::uint64_t>(t));
                const std::string& address = i % 2 == 0 ? node.local : node.tcp;
                if (!remote.put({address}, {node.number}, key, bytes, Tier::Memory, kDeadline).ok())
                    ++wrong;
                auto got = get(remote, address, {key});
                if (!got.ok() || *got != bytes) ++wrong;
            }
        });
    }
    for (auto& thread : threads) thread.join();
    CHECK(wrong == 0);
    // Connections are used again: no more than threads at once, on each of two addresses.
    CHECK(node.agent().server().traffic().connections <= 16);
}

TEST_CASE("a forked child works, shares no connection, and leaves the parent alone") {
    Node node;
    AgentClient remote(kKey);
    std::string bytes = random_bytes(100'000, 1);
    REQUIRE(remote.put({node.tcp}, {node.number}, "key", bytes, Tier::Memory, kDeadline).ok());
    REQUIRE(get(remote, node.local, {"key"}).ok());
    // A request in the middle of its body: the child must close its copy of that, too.
    auto half_read = remote.get(node.tcp, {"key"}, false, kDeadline);
    REQUIRE(half_read.ok());
    auto connections = node.agent().server().traffic().connections.load();
    CHECK(connections == 2);
    auto of_parent = sockets();

    int code = in_child([&] {
        // Only the server's ends, which are not the client's affair, are left: half of them.
        std::size_t kept = 0;
        for (auto& socket : sockets()) kept += of_parent.contains(socket);
        if (kept != of_parent.size() - connections) return 1;
        auto got = get(remote, node.tcp, {"key"});
        if (!got.ok() || *got != bytes) return 2;
        got = get(remote, node.local, {"key"});
        return got.ok() && *got == bytes ? 0 : 3;
    });
    CHECK(code == 0);
    std::string rest(bytes.size(), '\0');
    CHECK(half_read->read_body(rest.data()).ok());
    CHECK(rest == bytes);
    auto again = get(remote, node.local, {"key"});
    CHECK((again.ok() && *again == bytes));
}

TEST_CASE("forks while other threads ask do no harm") {
    Node node;
    AgentClient remote(kKey);
    std::string bytes = random_bytes(50'000, 1);
    REQUIRE(remote.put({node.local}, {node.number}, "key", bytes, Tier::Memory, kDeadline).ok());
    std::atomic<bool> done{false};
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) {
        threads.emplace_back([&] {
            while (!done) {
                remote.connections().close_idle();  // so that there is always one being dialled
                auto got = get(remote, node.tcp, {"key"});
                if (!got.ok() || *got != bytes) ++wrong;
            }
        });
    }
    for (int i = 0; i < 10; ++i) CHECK(in_child([] { return 0; }) == 0);
    done = true;
    for (auto& thread : threads) thread.join();
    CHECK(wrong == 0);
}

TEST_CASE("a request after the agent was replaced goes to the new one") {
    auto first = std::make_unique<Node>();
    AgentClient remote(kKey);
    std::string address = first->tcp;
    REQUIRE(remote.put({address}, {first->number}, "key", "old", Tier::Memory, kDeadline).ok());
    REQUIRE(get(remote, address, {"key"}).ok());
    first.reset();
    CHECK(get(remote, address, {"key"}).status().code() == Code::Unavailable);
    Node second(1 << 20, 1 << 20, address);
    CHECK(get(remote, address, {"key"}).status().code() == Code::NotFound);
    CHECK(remote.put({address}, {second.number}, "key", "new", Tier::Memory, kDeadline).ok());
}

TEST_CASE("no descriptor is lost, whatever becomes of a request") {
    Node node;
    AgentClient remote(kKey);
    std::string bytes = random_bytes(300'000, 1);
    REQUIRE(remote.put({node.local}, {node.number}, "key", bytes, Tier::Memory, kDeadline).ok());
    auto before = open_descriptors();
    for (int i = 0; i < 20; ++i) {
        {
            auto unread = remote.get(node.local, {"key"}, false, kDeadline);
            CHECK(unread.ok());
        }
        auto passed = remote.get(node.local, {"key"}, true, kDeadline);
        REQUIRE(passed.ok());
        CHECK(passed->take_descriptor());
        CHECK(remote.get(node.local, {"none"}, true, kDeadline).status().code() == Code::NotFound);
    }
    CHECK(eventually([&] { return open_descriptors() <= before + 2; }));
}

TEST_CASE("a descriptor that this process cannot take is an error, not an empty object") {
    Node node;
    AgentClient remote(kKey);
    REQUIRE(remote
                .put({node.local}, {node.number}, "key", random_bytes(100'000, 1), Tier::Memory,
                     kDeadline)
                .ok());
    int code = in_child([&] {
        // In a child, since the limit would starve the agent as well.
        if (!get(remote, node.local, {"key"}).ok()) return 1;  // connected
        rlimit none{0, 0};
        ::setrlimit(RLIMIT_NOFILE, &none);
        auto passed = remote.get(node.local, {"key"}, true, kDeadline);
        if (passed.ok()) return 2;
        return passed.status().code() == Code::Busy ? 0 : 3;
    });
    CHECK(code == 0);
}

TEST_CASE("what the other side would cut off is refused here, in a sentence") {
    Node node;
    AgentClient remote(kKey);
    std::string endless(100'000, 'k');
    CHECK(remote.stat(node.local, endless, kDeadline).status().code() == Code::BadInput);
    CHECK(remote.stat(node.local, std::string(5000, 'k'), kDeadline).status().code() ==
          Code::BadInput);
    CHECK(remote.stat(node.local, "", kDeadline).status().code() == Code::BadInput);
    CHECK(remote.call(node.local, {"a", "b"}, std::string(kMaxMessage + 1, 'x'), kDeadline)
              .status()
              .code() == Code::BadInput);
    CHECK(remote.stat("nonsense", "k", kDeadline).status().code() == Code::BadInput);
    CHECK(node.agent().server().traffic().refused == 0);
}

TEST_CASE("close() ends those who wait") {
    Node node;
    ConnectionPool pool(kKey);
    std::thread closer([&] {
        eventually([&] { return node.agent().calls().next().has_value(); });
        pool.close();
    });
    auto before = Clock::now();
    auto reply =
        pool.ask(node.local, {.op = Op::Call, .meta = CallMessage{"s", "m"}.encode()}, kDeadline);
    CHECK(reply.status().code() == Code::Unavailable);
    CHECK(Clock::now() - before < kDeadline / 2);
    closer.join();
}

TEST_CASE("what was asked of an agent ends when it is dead, though its sockets stay open") {
    auto listener = listen_on(*Address::parse("tcp:127.0.0.1:0"));  // and nobody accepts
    REQUIRE(listener.ok());
    std::string address = Address::of(*listener)->text;
    ConnectionPool pool(kKey);
    pool.set_live({address, "tcp:127.0.0.1:1"});
    std::thread death([&] {
        std::this_thread::sleep_for(50ms);
        pool.set_live({"tcp:127.0.0.1:1"});
    });
    Question question{.op = Op::Stat, .meta = KeyMessage{"key"}.encode()};
    TimePoint begin = Clock::now();
    CHECK(pool.ask(address, question, kDeadline).status().code() == Code::Unavailable);
    death.join();
    // And nobody begins to wait for it, but who wants to know whether it is back.
    CHECK(pool.ask(address, question, kDeadline).status().code() == Code::Unavailable);
    CHECK(Clock::now() - begin < kDeadline);
    question.to_the_dead = true;
    CHECK(pool.ask(address, question, 50ms).status().code() == Code::DeadlineMissed);
    pool.set_live({address});
    question.to_the_dead = false;
    CHECK(pool.ask(address, question, 50ms).status().code() == Code::DeadlineMissed);
}
