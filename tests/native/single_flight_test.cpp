// One gets it, the others wait: how flights end, and who joins them.
#include "base/single_flight.hpp"

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

#include "support.hpp"

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

using Flights = SingleFlight<std::string, int>;

}  // namespace

TEST_CASE("all who want the same at once get what one of them brought") {
    Flights flights;
    std::atomic<int> brought = 0;
    std::vector<std::thread> threads;
    std::atomic<int> right = 0;
    for (int i = 0; i < 8; ++i)
        threads.emplace_back([&] {
            auto value = flights.run("key", 30s, [&] {
                CHECK(eventually([&] { return flights.joined() == 7; }));
                return ++brought;
            });
            right += value == 1;
        });
    for (auto& thread : threads) thread.join();
    CHECK(brought == 1);
    CHECK(right == 8);
    CHECK(flights.run("key", 1s, [&] { return ++brought; }) == 2);  // that flight has ended
    CHECK(flights.joined() == 7);
}

TEST_CASE("other keys are other flights") {
    Flights flights;
    auto one = flights.board("a"), other = flights.board("b");
    CHECK(one.leads());
    CHECK(other.leads());
    CHECK_FALSE(flights.board("a").leads());
}

TEST_CASE("who joined waits no longer than its deadline, and the flight goes on") {
    Flights flights;
    auto lead = flights.board("key");
    CHECK_FALSE(flights.run("key", 1ms, [] { return 0; }));
    auto joined = flights.board("key");
    CHECK_FALSE(joined.wait_for(0ms));
    CHECK(joined.value() == nullptr);
    lead.land(5);
    CHECK(joined.wait_for(0ms));
    CHECK(*joined.value() == 5);
}

TEST_CASE("a flight that is dropped, or whose leader throws, ends for all who wait") {
    Flights flights;
    std::vector<std::thread> threads;
    std::atomic<int> without = 0;
    auto wait_in_threads = [&] {
        for (int i = 0; i < 4; ++i)
            threads.emplace_back([&] {
                auto ticket = flights.board("key");
                if (ticket.leads()) return;
                ticket.wait();
                without += ticket.value() == nullptr;
            });
    };
    SUBCASE("dropped") {
        auto lead = std::make_unique<Flights::Ticket>(flights.board("key"));
        wait_in_threads();
        CHECK(eventually([&] { return flights.joined() == 4; }));
        lead.reset();
    }
    SUBCASE("moved, then dropped") {
        auto lead = std::make_unique<Flights::Ticket>(flights.board("key"));
        auto moved = std::make_unique<Flights::Ticket>(std::move(*lead));
        lead.reset();
        CHECK_FALSE(flights.board("key").leads());  // it has not ended
        wait_in_threads();
        CHECK(eventually([&] { return flights.joined() == 5; }));
        moved.reset();
    }
    SUBCASE("thrown") {
        auto fail = [&]() -> int {
            wait_in_threads();
            CHECK(eventually([&] { return flights.joined() == 4; }));
            throw std::runtime_error("no");
        };
        CHECK_THROWS_AS(flights.run("key", 1s, fail), std::runtime_error);
    }
    for (auto& thread : threads) thread.join();
    CHECK(without == 4);
    CHECK(flights.board("key").leads());
}

TEST_CASE("nobody joins a flight that has ended, and what it brought is there by then") {
    Flights flights;
    std::atomic<bool> there = false;
    std::atomic<int> brought = 0;
    for (int round = 0; round < 200; ++round) {
        there = false;
        brought = 0;
        std::vector<std::thread> threads;
        for (int i = 0; i < 4; ++i)
            threads.emplace_back([&] {
                if (there) return;
                flights.run("key", 30s, [&] {
                    if (there) return 0;  // by the flight before
                    there = true;
                    return ++brought;
                });
            });
        for (auto& thread : threads) thread.join();
        CHECK(brought == 1);
    }
}

TEST_CASE("a flight may be closed first: then its leader knows whether anybody wants the value") {
    Flights flights;
    auto alone = flights.board("key");
    CHECK_FALSE(alone.close());
    auto lead = flights.board("key");
    CHECK(lead.leads());
    auto joined = flights.board("key");
    CHECK(lead.close());
    CHECK(flights.board("key").leads());
    CHECK_FALSE(joined.wait_for(0ms));
    CHECK(lead.give(3) == 3);
    joined.wait();
    CHECK(*joined.value() == 3);
}

TEST_CASE("a value may be given before the flight ends: who joins until then has it at once") {
    Flights flights;
    auto lead = std::make_unique<Flights::Ticket>(flights.board("key"));
    lead->give(4);
    auto late = flights.board("key");
    CHECK_FALSE(late.leads());
    CHECK(late.wait_for(0ms));
    lead.reset();
    CHECK(*late.value() == 4);
    CHECK(flights.board("key").leads());
}

TEST_CASE("a flight that is forgotten ends for those who joined it, and others lead a new one") {
    Flights flights;
    auto old = flights.board("key");
    auto joined = flights.board("key");
    CHECK(old.is_current());
    flights.forget("key");
    CHECK_FALSE(old.is_current());
    auto lead = flights.board("key");
    CHECK(lead.leads());
    old.land(1);
    CHECK(*joined.value() == 1);
    CHECK(lead.is_current());  // the end of the old one takes nothing from it
    CHECK_FALSE(flights.board("key").leads());
}

TEST_CASE("all of a flight see what its leader shows while it lasts") {
    SingleFlight<int, int, std::atomic<int>> flights;
    auto lead = flights.board(1);
    auto joined = flights.board(1);
    lead.shared() = 7;
    CHECK(joined.shared() == 7);
}
