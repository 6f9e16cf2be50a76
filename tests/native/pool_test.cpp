// The pool: lanes do not take each other's threads, and stopping ends everything.
#include "rpc/pool.hpp"

#include <atomic>
#include <future>
#include <latch>
#include <thread>

#include "support.hpp"

using namespace holdfast;
using namespace holdfast::test;

TEST_CASE("a lane runs no more than its threads, and all that it is given") {
    Pool pool(1, 4);
    std::atomic<int> running{0}, most{0}, done{0};
    for (int i = 0; i < 200; ++i) {
        pool.run(0, [&] {
            int now = ++running;
            for (int seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
            }
            std::this_thread::yield();
            --running;
            ++done;
        });
    }
    CHECK(eventually([&] { return done == 200; }));
    CHECK(most <= 4);
}

TEST_CASE("work that waits for a lower lane never waits for itself") {
    // Far more waiting work than threads: with one queue for all, this would hang.
    Pool pool(3, 2);
    std::atomic<int> done{0};
    for (int i = 0; i < 40; ++i) {
        pool.run(2, [&] {
            std::promise<void> middle;
            pool.run(1, [&] {
                std::promise<void> low;
                pool.run(0, [&] { low.set_value(); });
                low.get_future().wait();
                middle.set_value();
            });
            middle.get_future().wait();
            ++done;
        });
    }
    CHECK(eventually([&] { return done == 40; }));
}

TEST_CASE("stop() waits for what runs and drops what is queued") {
    Pool pool(1, 1);
    std::atomic<bool> first{false}, second{false};
    std::latch started(1);
    pool.run(0, [&] {
        started.count_down();
        std::this_thread::sleep_for(50ms);
        first = true;
    });
    auto held = std::make_shared<int>(1);
    pool.run(0, [&second, held] { second = true; });
    started.wait();
    pool.stop();
    CHECK(first);
    CHECK_FALSE(second);
    CHECK(held.use_count() == 1);  // what was dropped is gone with all that it held
    pool.run(0, [&second] { second = true; });
    pool.stop();
    CHECK_FALSE(second);
}
