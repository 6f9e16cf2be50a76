// The one clock of the core: monotonic, so that nobody who sets the time ends a deadline.
#pragma once

#include <chrono>

namespace holdfast {

using Clock = std::chrono::steady_clock;
using TimePoint = Clock::time_point;
using Duration = Clock::duration;

}  // namespace holdfast
