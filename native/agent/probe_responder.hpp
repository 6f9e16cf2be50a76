// What an agent says of itself when it is probed: which view it has, how long ago its Python loop
// was seen alive, and news. Thread-safe; asking another for somebody is done in a lane.
#pragma once

#include <atomic>
#include <string>
#include <variant>

#include "base/clock.hpp"
#include "base/mutex.hpp"
#include "placement/current_placement.hpp"
#include "rpc/connection_pool.hpp"
#include "rpc/events.hpp"
#include "rpc/handlers.hpp"
#include "store/messages.hpp"

namespace holdfast {

class ProbeResponder {
  public:
    ProbeResponder(const CurrentPlacement& placement, ConnectionPool& peers, Events& events)
        : placement_(placement), peers_(peers), events_(events) {}

    void add_to(Handlers& handlers);

    void beat();
    // For how long the next beat has been due, going by the pause between the last two.
    Duration overdue() const;
    void set_news(std::string news);

    std::uint64_t probes() const { return probes_; }

  private:
    Outcome handle(const Request& request);
    // Tells Python only what it does not know yet.
    Result<ProbeReply> reply_to(ProbeMessage message);

    const CurrentPlacement& placement_;
    ConnectionPool& peers_;
    Events& events_;
    std::atomic<std::uint64_t> probes_{0};
    std::atomic<TimePoint> last_beat_{Clock::now()};
    std::atomic<Duration> pause_{Duration()};  // before the last beat
    Mutex mutex_;
    std::string news_ GUARDED_BY(mutex_);
};

}  // namespace holdfast
