// One line per event on standard error, which the agent's log file stands behind.
// Thread-safe. A flood (say, of refused connections) is cut to a few lines a second and counted.
#pragma once

#include <string_view>

namespace holdfast {

void log_line(std::string_view level, std::string_view text);

inline void log_warning(std::string_view text) {
    log_line("warning", text);
}

}  // namespace holdfast
