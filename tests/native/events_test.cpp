// Events: one descriptor, all that happened, and no more gossip than fits.
#include "rpc/events.hpp"

#include <poll.h>

#include "support.hpp"

using namespace holdfast;
using namespace holdfast::test;

namespace {

bool readable(int fd) {
    pollfd entry{fd, POLLIN, 0};
    return ::poll(&entry, 1, 0) == 1;
}

}  // namespace

TEST_CASE("an answer that tells nothing new waits until Python looks") {
    Events events;
    events.push(event::Answered{1, 0, 7, "", true});
    CHECK_FALSE(readable(events.fd()));
    events.push(event::Answered{2, 0, 8, "", false});
    CHECK(readable(events.fd()));
    CHECK(std::get<event::Answered>(*events.next()).ticket == 1);
    CHECK(std::get<event::Answered>(*events.next()).ticket == 2);
    CHECK_FALSE(readable(events.fd()));
    events.push(event::Answered{3, 0, 7, "", true});
    CHECK(std::get<event::Answered>(*events.next()).ticket == 3);
    CHECK_FALSE(events.next());
}

TEST_CASE("events come in order, and the descriptor is readable while there are some") {
    Events events;
    CHECK_FALSE(readable(events.fd()));
    CHECK_FALSE(events.next().has_value());
    events.push(event::Reply{1, "one"});
    events.push(event::Pulled{2, 3});
    CHECK(readable(events.fd()));
    CHECK(std::get<event::Reply>(*events.next()).message == "one");
    CHECK(readable(events.fd()));
    CHECK(std::get<event::Pulled>(*events.next()).size == 3);
    CHECK_FALSE(readable(events.fd()));
    CHECK_FALSE(events.next().has_value());
    events.push(event::Reply{3, "again"});
    CHECK(readable(events.fd()));
}

TEST_CASE("a stuck reader keeps what it asked for, and not all the gossip") {
    Events events;
    for (std::uint64_t i = 0; i < 2000; ++i) {
        events.push(event::Heard{1, 2, "news"});
        events.push(event::Failed{i, Status(Code::Busy, "no")});
    }
    std::uint64_t heard = 0, failed = 0;
    while (auto event = events.next()) {
        if (auto* one = std::get_if<event::Failed>(&*event))
            CHECK(one->ticket == failed++);
        else
            ++heard;
    }
    CHECK(failed == 2000);
    CHECK(heard < 1000);
    events.push(event::Heard{1, 2, "news"});
    CHECK(events.next().has_value());
}

TEST_CASE("an agent's descriptor wakes for calls and for events, whichever is taken first") {
    Node node;
    Agent& agent = node.agent();
    CHECK_FALSE(readable(agent.fd()));
    agent.events().push(event::Reply{1, ""});
    CHECK(readable(agent.fd()));
    CHECK_FALSE(agent.calls().next().has_value());  // must not hide the event
    CHECK(readable(agent.fd()));
    std::thread caller([&] {
        AgentClient remote(kKey);
        CHECK(remote.call(node.tcp, {"service", "method"}, "", kDeadline).ok());
    });
    CHECK(eventually([&] { return readable(agent.calls().fd()); }));
    while (agent.events().next()) continue;  // must not hide the call
    CHECK(readable(agent.fd()));
    agent.calls().answer(agent.calls().next()->id, std::string("done"));
    caller.join();
    CHECK_FALSE(agent.calls().next().has_value());
    CHECK_FALSE(readable(agent.fd()));
}
