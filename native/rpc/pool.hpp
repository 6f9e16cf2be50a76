// Threads for work that blocks, in lanes.
//
// A lane has its own queue and its own limit, so that work of one kind cannot take the threads of
// another. Work that waits for another agent's lane n runs in a lane above n, on every agent: what
// waits never forms a circle. Thread-safe; run() never blocks.
//
// Work may be dropped: when the pool stops, or when no thread can be started for it. It is then
// destroyed without having run, so what must end in any case ends in a destructor.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <vector>

#include "base/mutex.hpp"

namespace holdfast {

class Pool {
  public:
    Pool(std::size_t lanes, std::size_t threads_per_lane);
    ~Pool();  // stops

    void run(std::size_t lane, std::function<void()> work);
    void stop();  // drops what is queued, and waits for what runs

  private:
    struct Lane {
        std::deque<std::function<void()>> queue;
        std::size_t threads = 0;
        std::size_t idle = 0;
        Condition wake;
    };
    void serve(Lane& lane);

    Mutex mutex_;
    std::deque<Lane> lanes_;  // a deque: its elements do not move
    const std::size_t threads_per_lane_;
    std::size_t threads_ GUARDED_BY(mutex_) = 0;
    Condition ended_;
    bool stopping_ GUARDED_BY(mutex_) = false;
};

}  // namespace holdfast
