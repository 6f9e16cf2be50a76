// What an agent says of itself when it is probed: which view it has, how long ago its Python loop
// was seen alive, and news. Thread-safe, never blocks.
#pragma once

#include <atomic>
#include <mutex>
#include <string>

#include "base/clock.hpp"
#include "placement/current_placement.hpp"
#include "rpc/events.hpp"
#include "store/messages.hpp"

namespace holdfast {

class ProbeResponder {
  public:
    ProbeResponder(const CurrentPlacement& placement, Events& events)
        : placement_(placement), events_(events) {}

    void beat() { last_beat_ = Clock::now(); }
    void set_news(std::string news);

    // Tells Python only what it does not know yet.
    Result<ProbeReply> answer(ProbeMessage message);
    std::uint64_t probes() const { return probes_; }

  private:
    const CurrentPlacement& placement_;
    Events& events_;
    std::atomic<std::uint64_t> probes_{0};
    std::atomic<TimePoint> last_beat_{Clock::now()};
    std::mutex mutex_;
    std::string news_;
};

}  // namespace holdfast
