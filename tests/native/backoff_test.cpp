// The back-off from the local agent, with a clock of its own.
#include "base/backoff.h"

#include <thread>
#include <vector>

#include "support.hpp"

TEST_CASE("each failure in a row doubles the pause, up to a limit, and an answer ends it") {
    hf_backoff backoff{};
    std::uint64_t now = 5000;
    CHECK_FALSE(hf_has_failed(&backoff));
    CHECK_FALSE(hf_backs_off(&backoff, now));
    for (std::uint64_t pause : {200, 400, 800, 1600, 3200, 6400, 10000, 10000}) {
        hf_failed(&backoff, now);
        CHECK(hf_has_failed(&backoff));
        CHECK(hf_backs_off(&backoff, now));
        CHECK(hf_backs_off(&backoff, now + pause - 1));
        now += pause;
        CHECK_FALSE(hf_backs_off(&backoff, now));
    }
    hf_answered(&backoff);
    CHECK_FALSE(hf_has_failed(&backoff));
    hf_failed(&backoff, now);
    CHECK(hf_backs_off(&backoff, now + 199));
    CHECK_FALSE(hf_backs_off(&backoff, now + 200));
}

TEST_CASE("an answer ends a pause at once") {
    hf_backoff backoff{};
    hf_failed(&backoff, 1);
    hf_answered(&backoff);
    CHECK_FALSE(hf_backs_off(&backoff, 2));
}

TEST_CASE("requests that fail together are one failure, also of several threads") {
    hf_backoff backoff{};
    hf_failed(&backoff, 1000);
    hf_failed(&backoff, 1100);  // it was under way before
    CHECK_FALSE(hf_backs_off(&backoff, 1200));
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i) threads.emplace_back([&] { hf_failed(&backoff, 1200); });
    for (auto& thread : threads) thread.join();
    CHECK(hf_backs_off(&backoff, 1599));
    CHECK_FALSE(hf_backs_off(&backoff, 1600));
}
