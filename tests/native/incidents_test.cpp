// Incidents: what was slow or refused is told, all else is not, and never too much of it.
#include "rpc/incidents.hpp"

#include "support.hpp"

using namespace holdfast;
using namespace holdfast::test;

namespace {

std::vector<event::Incident> told(Events& events) {
    std::vector<event::Incident> found;
    while (auto event = events.next())
        if (auto* one = std::get_if<event::Incident>(&*event)) found.push_back(*one);
    return found;
}

}  // namespace

TEST_CASE("a request that was neither slow nor refused is no incident") {
    Events events;
    Incidents incidents(events);
    Wait(incidents, "get", "key", "", kDeadline).ended(Status());
    Wait(incidents, "get", "key", "", kDeadline).ended(Status(Code::NotFound, "not here"));
    // Whoever refused it tells it.
    Wait(incidents, "forward", "key", "tcp:x:1", kDeadline).ended(Status(Code::Full, "no room"));
    Wait(incidents, "put", "key", "", kDeadline).ended(Status(Code::Full, "no room", "tcp:x:1"));
    CHECK(told(events).empty());
}

TEST_CASE("a refusal tells what was refused and why") {
    Events events;
    Incidents incidents(events);
    Wait(incidents, "put", "key", "", kDeadline).ended(Status(Code::KeyExists, "other bytes"));
    auto found = told(events);
    REQUIRE(found.size() == 1);
    CHECK(found[0].kind == event::Incident::Refused);
    CHECK(found[0].what == "put");
    CHECK(found[0].about == "key");
    CHECK(found[0].status.code() == Code::KeyExists);
}

TEST_CASE("a long wait tells for whom, how long and how it ended; bytes that came are no wait") {
    Events events;
    Incidents incidents(events);
    TimePoint before = Clock::now() - 5s;
    Wait(incidents, "fetch", "/path", "tcp:x:1", 8s, before).ended(Status(), 100 << 20);
    CHECK(told(events).empty());
    Wait(incidents, "fetch", "/path", "tcp:x:1", 8s, before)
        .ended(Status(Code::DeadlineMissed, "no answer"));
    auto found = told(events);
    REQUIRE(found.size() == 1);
    CHECK(found[0].kind == event::Incident::Waited);
    CHECK(found[0].with == "tcp:x:1");
    CHECK(found[0].waited >= 5s);
    CHECK(found[0].deadline == 8s);
    CHECK(found[0].status.code() == Code::DeadlineMissed);
}

TEST_CASE("of a flood some are told, the rest is counted, and other kinds are not held up") {
    Events events;
    Incidents incidents(events);
    auto refuse = [&] {
        Wait(incidents, "put", "key", "", kDeadline).ended(Status(Code::Full, "no room"));
    };
    for (int i = 0; i < 1000; ++i) refuse();
    incidents.note({.kind = event::Incident::Condemned,
                    .what = "disk",
                    .about = "",
                    .with = "",
                    .status = {}});
    std::uint64_t refused = 0, left_out = 0, condemned = 0;
    auto count = [&] {
        for (auto& one : told(events)) {
            refused += one.kind == event::Incident::Refused;
            condemned += one.kind == event::Incident::Condemned;
            left_out += one.left_out;
        }
    };
    count();
    CHECK(refused < 1000);
    CHECK(condemned == 1);
    CHECK(eventually([&] {
        refuse();
        count();
        return left_out > 0;
    }));
}
