// What agents ask of each other without waiting: probes, calls, pulls. Each ends as one event.
#include "agent/requests.hpp"

#include <poll.h>

#include <algorithm>
#include <thread>

#include "support.hpp"

using namespace holdfast;
using namespace holdfast::test;

namespace {

// The next event of an agent, of the kind that is expected.
template <typename Kind>
Kind next(Node& node) {
    std::optional<Event> event;
    eventually([&] { return (event = node.agent().events().next()).has_value(); });
    REQUIRE(event.has_value());
    auto* failed = std::get_if<event::Failed>(&*event);
    REQUIRE_MESSAGE(std::holds_alternative<Kind>(*event),
                    (failed ? failed->status.message() : "another kind of event"));
    return std::get<Kind>(std::move(*event));
}

void set_view(Node& node, std::uint64_t self, std::uint64_t identity) {
    node.agent().set_self(self);
    node.agent().set_placement(Placement::make(Ring({"node"}, 1), {self}, {node.tcp}, identity));
}

std::string gone() {
    return Node().tcp;
}

// Takes connections and never says a word.
struct Silent {
    Silent()
        : fd(std::move(*listen_on(*Address::parse("tcp:127.0.0.1:0")))),
          tcp(Address::of(fd)->text) {}
    Fd fd;
    std::string tcp;
};

}  // namespace

TEST_CASE("a probe is answered with view, news and age, and Python sleeps through it") {
    Node a, b;
    set_view(a, 1, 77);
    set_view(b, 2, 77);
    b.agent().probes().set_news("news of b");
    a.agent().requests().probe(5, b.tcp, "", "", 0, kDeadline);
    auto answer = next<event::Answered>(a);
    CHECK(answer.ticket == 5);
    CHECK(answer.identity == 77);
    CHECK(answer.news == "news of b");
    CHECK_FALSE(b.agent().events().next().has_value());  // nothing that it did not know
    CHECK(b.agent().probes().probes() == 1);

    std::this_thread::sleep_for(30ms);
    a.agent().requests().probe(6, b.tcp, "", "", 0, kDeadline);
    auto older = next<event::Answered>(a);
    CHECK(older.age_ms >= answer.age_ms + 30);  // nobody beats for b
    b.agent().probes().beat();
    a.agent().requests().probe(7, b.tcp, "", "", 0, kDeadline);
    CHECK(next<event::Answered>(a).age_ms < older.age_ms);
}

TEST_CASE("a probe that brings news or another view is heard") {
    Node a, b;
    set_view(a, 1, 77);
    set_view(b, 2, 77);
    a.agent().requests().probe(1, b.tcp, "", "gossip", 0, kDeadline);
    auto heard = next<event::Heard>(b);
    CHECK(heard.sender == 1);
    CHECK(heard.identity == 77);
    CHECK(heard.news == "gossip");
    set_view(a, 1, 78);
    a.agent().requests().probe(2, b.tcp, "", "", 0, kDeadline);
    heard = next<event::Heard>(b);
    CHECK(heard.identity == 78);
    CHECK(heard.news.empty());
    CHECK(next<event::Answered>(a).ticket == 1);
    CHECK(next<event::Answered>(a).identity == 77);
}

TEST_CASE("a probe through a helper reaches the target as if it came from us") {
    Node a, b, c;
    set_view(a, 1, 77);
    set_view(b, 2, 76);
    set_view(c, 3, 75);
    a.agent().requests().probe(1, c.tcp, b.tcp, "gossip", 3, kDeadline);
    CHECK(next<event::Answered>(a).identity == 75);
    CHECK(next<event::Heard>(c).sender == 1);
    CHECK_FALSE(b.agent().events().next().has_value());
    CHECK(b.agent().probes().probes() == 0);

    std::string dead = gone();
    a.agent().requests().probe(2, dead, b.tcp, "", 0, kDeadline);
    CHECK(next<event::Failed>(a).status.code() == Code::Unavailable);
    a.agent().requests().probe(3, c.tcp, dead, "", 0, kDeadline);
    CHECK(next<event::Failed>(a).status.code() == Code::Unavailable);
}

TEST_CASE("rule 2: who was started anew at an address does not answer for the one before") {
    Node a, b;
    set_view(a, 1, 77);
    set_view(b, 2, 77);
    a.agent().requests().probe(1, b.tcp, "", "gossip", 9, kDeadline);
    CHECK(next<event::Failed>(a).status.code() == Code::Unavailable);
    CHECK_FALSE(b.agent().events().next().has_value());
    a.agent().requests().probe(2, b.tcp, "", "", 2, kDeadline);
    CHECK(next<event::Answered>(a).ticket == 2);
}

TEST_CASE("a probe of one who is gone or silent fails") {
    Node a;
    Silent silent;
    a.agent().requests().probe(1, gone(), "", "", 0, kDeadline);
    CHECK(next<event::Failed>(a).status.code() == Code::Unavailable);
    a.agent().requests().probe(2, silent.tcp, "", "", 0, 50ms);
    CHECK(next<event::Failed>(a).status.code() == Code::DeadlineMissed);
    a.agent().requests().probe(3, "nonsense", "", "", 0, kDeadline);
    CHECK(next<event::Failed>(a).status.code() == Code::BadInput);
}

TEST_CASE("probes wait for nobody, and need no new thread each") {
    Node a, b;
    set_view(a, 1, 77);
    set_view(b, 2, 77);
    // All calls of b wait for a Python side that does not come.
    AgentClient remote(kKey);
    std::vector<std::thread> stuck;
    for (int i = 0; i < 40; ++i)
        stuck.emplace_back([&] { (void)remote.call(b.tcp, {"s", "m"}, "", kDeadline); });
    int taken = 0;  // as many as the lane has threads: no more are started
    CHECK(eventually([&] {
        while (b.agent().calls().next()) ++taken;
        return taken == 32;
    }));
    a.agent().requests().probe(0, b.tcp, "", "", 0, kDeadline);
    next<event::Answered>(a);
    std::size_t threads = files_in("/proc/self/task");
    for (std::uint64_t i = 1; i <= 100; ++i) {
        a.agent().requests().probe(i, b.tcp, "", "", 0, kDeadline);
        CHECK(next<event::Answered>(a).ticket == i);
    }
    CHECK(files_in("/proc/self/task") <= threads + 2);  // the lane of a may grow by chance
    b.stop();
    for (auto& thread : stuck) thread.join();
}

TEST_CASE("an asked question comes back as a reply or as the failure that it met") {
    Node a, b;
    std::thread python([&] {
        for (int i = 0; i < 2; ++i) {
            std::optional<Calls::Call> call;
            eventually([&] { return (call = b.agent().calls().next()).has_value(); });
            REQUIRE(call.has_value());
            if (call->method == "good")
                b.agent().calls().answer(call->id, call->service + call->message);
            else
                b.agent().calls().answer(call->id, Status(Code::BadInput, "no such method"));
        }
    });
    a.agent().requests().ask(1, b.tcp, {"service", "good"}, " and message", kDeadline);
    auto reply = next<event::Reply>(a);
    CHECK(reply.ticket == 1);
    CHECK(reply.message == "service and message");
    a.agent().requests().ask(2, b.tcp, {"service", "bad"}, "", kDeadline);
    auto failed = next<event::Failed>(a);
    CHECK(failed.ticket == 2);
    CHECK(failed.status.code() == Code::BadInput);
    a.agent().requests().ask(3, b.tcp, {"s", "m"}, std::string(kMaxMessage + 1, 'x'), kDeadline);
    CHECK(next<event::Failed>(a).status.code() == Code::BadInput);
    python.join();
}

TEST_CASE("a pull of our own makes an equal copy, and counts what it moved") {
    Node a, b;
    std::string bytes = random_bytes(300'000, 1);
    REQUIRE(put(b.store(), "key", bytes).ok());
    for (int i = 0; i < 2; ++i) {  // the second time it is here already
        a.agent().requests().pull(1, {"key", b.tcp, Tier::Disk}, kDeadline);
        CHECK(next<event::Pulled>(a).size == bytes.size());
    }
    CHECK(contents(a.store(), "key") == bytes);
    CHECK(a.store().find("key")->tier == Tier::Disk);
    CHECK(a.agent().operations().counters().pulled_bytes == bytes.size());
    a.agent().requests().pull(2, {"absent", b.tcp, Tier::Disk}, kDeadline);
    CHECK(next<event::Failed>(a).status.code() == Code::NotFound);
}

TEST_CASE("too many requests are refused, and every ticket comes back once") {
    Node a;
    Silent silent;
    constexpr std::uint64_t kMany = 1500;
    for (std::uint64_t i = 0; i < kMany; ++i)
        a.agent().requests().probe(i, silent.tcp, "", "", 0, kDeadline);
    std::vector<int> seen(kMany, 0);
    int busy = 0;
    auto take = [&] {
        while (auto event = a.agent().events().next()) {
            auto& failed = std::get<event::Failed>(*event);
            ++seen.at(failed.ticket);
            if (failed.status.code() == Code::Busy) ++busy;
        }
    };
    take();
    CHECK(busy >= 400);
    a.agent().stop();  // with most of them queued and some waiting for the silent one
    take();
    CHECK(std::all_of(seen.begin(), seen.end(), [](int count) { return count == 1; }));
    a.agent().requests().probe(0, silent.tcp, "", "", 0, kDeadline);
    take();
    CHECK(seen[0] == 2);  // also after the end
}

TEST_CASE("stopping ends all kinds of requests at once") {
    auto a = std::make_unique<Node>();
    Node b;
    Silent silent;
    a->agent().requests().probe(1, silent.tcp, "", "", 0, 1h);
    a->agent().requests().ask(2, b.tcp, {"s", "m"}, "", 1h);
    a->agent().requests().pull(3, {"key", silent.tcp}, 1h);
    b.agent().requests().probe(4, silent.tcp, a->tcp, "", 0, 1h);  // a is the helper
    CHECK(eventually([&] { return b.agent().calls().next().has_value(); }));
    a->agent().stop();
    std::uint64_t tickets = 0;
    while (auto event = a->agent().events().next())
        tickets += std::get<event::Failed>(*event).ticket;
    CHECK(tickets == 6);
    CHECK(next<event::Failed>(b).ticket == 4);
}
