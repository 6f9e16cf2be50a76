// How slow the storage is: a delay of each open, operations that are served one at a time, and a
// bandwidth that all readers share.
//
// Thread-safe. All calls block, for as long as they must.
#pragma once

#include <algorithm>
#include <chrono>
#include <mutex>
#include <thread>

namespace holdfast::storage {

using Seconds = std::chrono::duration<double>;

// Something that serves one after another.
class Line {
  public:
    // Returns when all that came before, and this, have been served.
    void serve(Seconds takes) {
        if (takes.count() <= 0) return;
        Clock::time_point end;
        {
            std::lock_guard lock(mutex_);
            // A little of the past may be made up for, or one that sleeps too long loses time.
            free_ = std::max(free_, Clock::now() - kGrace);
            free_ += std::chrono::duration_cast<Clock::duration>(takes);
            end = free_;
        }
        std::this_thread::sleep_until(end);
    }

  private:
    using Clock = std::chrono::steady_clock;
    static constexpr std::chrono::milliseconds kGrace{10};

    std::mutex mutex_;
    Clock::time_point free_{};  // when all that came so far has been served
};

class Throttle {
  public:
    // Seconds; bytes per second, 0 for no limit.
    Throttle(double open_delay, double operation_delay, double bandwidth)
        : open_delay_(open_delay), operation_delay_(operation_delay), bandwidth_(bandwidth) {}

    // Any request that a storage has to answer, an open among them.
    void operation() { operations_.serve(operation_delay_); }

    void open() const {
        if (open_delay_.count() > 0) std::this_thread::sleep_for(open_delay_);
    }

    void read(std::size_t bytes) {
        if (bandwidth_ > 0) bytes_.serve(Seconds(static_cast<double>(bytes) / bandwidth_));
    }

  private:
    const Seconds open_delay_;
    const Seconds operation_delay_;
    const double bandwidth_;
    Line operations_;
    Line bytes_;
};

}  // namespace holdfast::storage
