// One line per event on standard error, which the agent's log file stands behind.
//
// Thread-safe. A flood (of refused connections, or of fills that find no room) is cut to a few
// lines a minute of each kind, and the rest is counted: the disk behind the log may be the one that
// is full. The kind of a line is how it begins, as far as that are words. What could be taken for
// the end of a line, or for no text at all, is written as \xNN.
#pragma once

#include <string>
#include <string_view>

namespace holdfast {

void log_line(std::string_view level, std::string_view text);

inline void log_warning(std::string_view text) {
    log_line("warning", text);
}

// As it stands in a line: control characters and what is not UTF-8 are escaped.
std::string printable(std::string_view text);

}  // namespace holdfast
