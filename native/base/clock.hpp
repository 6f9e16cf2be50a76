// The two clocks of the core. Neither moves when somebody sets the time.
//
// Clock is for deadlines, pauses and whatever condition variables wait for. It stands still while
// the host sleeps (suspend, a paused virtual machine): nobody's deadline ends for that.
//
// BootClock goes on meanwhile. It is for how long something was believed, and for noticing that
// this process did not run: others may have told us of changes that we did not hear.
#pragma once

#include <chrono>
#include <ctime>

namespace holdfast {

using Clock = std::chrono::steady_clock;
using TimePoint = Clock::time_point;
using Duration = Clock::duration;

struct BootClock {
    using duration = Duration;
    using rep = duration::rep;
    using period = duration::period;
    using time_point = std::chrono::time_point<BootClock>;
    static constexpr bool is_steady = true;

    static time_point now() noexcept {
        timespec time{};
        ::clock_gettime(CLOCK_BOOTTIME, &time);
        return time_point(std::chrono::seconds(time.tv_sec) +
                          std::chrono::nanoseconds(time.tv_nsec));
    }
};
using BootTime = BootClock::time_point;

}  // namespace holdfast
