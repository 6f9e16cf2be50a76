#include "base/log.hpp"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <ctime>
#include <map>

#include "base/mutex.hpp"

namespace holdfast {
namespace {

constexpr int kLines = 10;  // of a kind, in this many seconds
constexpr std::time_t kSeconds = 60;
constexpr std::size_t kMostKinds = 100;

struct Kind {
    std::time_t since = 0;
    int lines = 0;
    long suppressed = 0;
};

std::string_view kind_of(std::string_view text) {
    auto other = std::ranges::find_if(
        text, [](unsigned char one) { return one != ' ' && !std::isalpha(one); });
    return text.substr(0, static_cast<std::size_t>(other - text.begin()));
}

// How many bytes the character takes with which a text begins; 0: it is none, or not printable.
std::size_t width(std::string_view text) {
    auto first = static_cast<unsigned char>(text[0]);
    if (first < 0x80) return first >= 0x20 && first != 0x7f;
    std::size_t size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    if (first < 0xc2 || first > 0xf4 || text.size() < size) return 0;
    bool whole = std::ranges::all_of(text.substr(1, size - 1),
                                     [](unsigned char one) { return (one & 0xc0) == 0x80; });
    return whole ? size : 0;
}

}  // namespace

std::string printable(std::string_view text) {
    std::string out;
    while (!text.empty()) {
        std::size_t size = width(text);
        char escaped[8];
        std::snprintf(escaped, sizeof escaped, "\\x%02x", static_cast<unsigned char>(text[0]));
        out.append(size == 0 ? std::string_view(escaped) : text.substr(0, size));
        text.remove_prefix(std::max<std::size_t>(size, 1));
    }
    return out;
}

void log_line(std::string_view level, std::string_view text) {
    static Mutex mutex;
    static std::map<std::string, Kind, std::less<>> kinds;
    std::timespec now{};
    ::clock_gettime(CLOCK_REALTIME, &now);
    std::tm parts{};
    ::gmtime_r(&now.tv_sec, &parts);
    char stamp[32];
    std::strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%SZ ", &parts);

    Lock lock(mutex);
    auto found = kinds.find(kind_of(text));
    if (found == kinds.end())
        found =
            kinds.try_emplace(std::string(kinds.size() < kMostKinds ? kind_of(text) : "")).first;
    Kind& kind = found->second;
    std::string more;
    if (now.tv_sec < kind.since || now.tv_sec - kind.since >= kSeconds) {
        if (kind.suppressed > 0)
            more = " (" + std::to_string(kind.suppressed) +
                   " similar messages were suppressed before)";
        kind = {now.tv_sec};
    }
    if (++kind.lines > kLines) {
        ++kind.suppressed;
        return;
    }
    std::string out = stamp + std::string(level) + " " + printable(text) + more + "\n";
    // A full disk must not stop the agent; a lost log line is the lesser evil.
    [[maybe_unused]] auto written = ::write(STDERR_FILENO, out.data(), out.size());
}

}  // namespace holdfast
