#include "base/log.hpp"

#include <unistd.h>

#include <ctime>
#include <mutex>
#include <string>

namespace holdfast {
namespace {

constexpr int kLinesPerSecond = 50;

struct Limiter {
    std::mutex mutex;
    std::time_t second = 0;
    int lines = 0;
    long suppressed = 0;
};

}  // namespace

void log_line(std::string_view level, std::string_view text) {
    static Limiter limiter;
    std::timespec now{};
    ::clock_gettime(CLOCK_REALTIME, &now);
    std::tm parts{};
    ::gmtime_r(&now.tv_sec, &parts);
    char stamp[32];
    std::strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%SZ ", &parts);

    std::lock_guard lock(limiter.mutex);
    std::string out;
    if (now.tv_sec != limiter.second) {
        if (limiter.suppressed > 0)
            out += std::string(stamp) + "warning " + std::to_string(limiter.suppressed) +
                   " more lines were left out\n";
        limiter.second = now.tv_sec;
        limiter.lines = 0;
        limiter.suppressed = 0;
    }
    if (++limiter.lines > kLinesPerSecond) {
        ++limiter.suppressed;
        return;
    }
    out.append(stamp).append(level).append(" ").append(text).append("\n");
    // A full disk must not stop the agent; a lost log line is the lesser evil.
    [[maybe_unused]] auto written = ::write(STDERR_FILENO, out.data(), out.size());
}

}  // namespace holdfast
