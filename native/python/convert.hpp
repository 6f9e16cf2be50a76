// Between Python's values and the core's.
#pragma once

#include <nanobind/nanobind.h>

#include <algorithm>
#include <string>

#include "base/clock.hpp"

inline std::string as_string(const nanobind::bytes& data) {
    return {data.c_str(), data.size()};
}

inline nanobind::bytes as_bytes(const std::string& data) {
    return nanobind::bytes(data.data(), data.size());
}

inline holdfast::Duration as_duration(double seconds) {
    // Negative, endless or not a number: the core has its limits, the conversion must not overflow.
    seconds = seconds > 0 ? std::min(seconds, 86'400.0) : 0;
    return std::chrono::duration_cast<holdfast::Duration>(std::chrono::duration<double>(seconds));
}

// Runs `work` without the GIL.
template <typename Work>
auto unlocked(Work work) {
    nanobind::gil_scoped_release release;
    return work();
}
