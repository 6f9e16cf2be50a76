// How slow the storage is: a delay of each open, and a bandwidth that all readers share.
//
// Thread-safe. Both calls block, for as long as they must.
#pragma once

#include <algorithm>
#include <chrono>
#include <mutex>
#include <thread>

namespace holdfast::storage {

class Throttle {
  public:
    // Seconds; bytes per second, 0 for no limit.
    Throttle(double open_delay, double bandwidth) : delay_(open_delay), bandwidth_(bandwidth) {}

    void open() const {
        if (delay_.count() > 0) std::this_thread::sleep_for(delay_);
    }

    void read(std::size_t bytes) {
        if (bandwidth_ <= 0) return;
        Clock::time_point end;
        {
            std::lock_guard lock(mutex_);
            // A little of the past may be made up for, or whoever sleeps too long loses bandwidth.
            free_ = std::max(free_, Clock::now() - kGrace);
            free_ += std::chrono::duration_cast<Clock::duration>(
                Seconds(static_cast<double>(bytes) / bandwidth_));
            end = free_;
        }
        std::this_thread::sleep_until(end);
    }

  private:
    using Clock = std::chrono::steady_clock;
    using Seconds = std::chrono::duration<double>;
    static constexpr std::chrono::milliseconds kGrace{10};

    const Seconds delay_;
    const double bandwidth_;
    std::mutex mutex_;
    Clock::time_point free_{};  // when all that was read so far has gone through
};

}  // namespace holdfast::storage
