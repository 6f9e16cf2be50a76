// What an agent says of itself when it is probed: who it is, which view it has, how long ago its
// Python loop was seen alive, and news. Thread-safe, never blocks.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "placement/placement.hpp"
#include "rpc/events.hpp"
#include "store/messages.hpp"

namespace holdfast {

class Presence {
  public:
    explicit Presence(Events& events) : events_(events) {}

    void set_self(std::uint64_t number);
    void set_placement(Ring ring, std::vector<std::uint64_t> numbers,
                       std::vector<std::string> addresses, std::uint64_t identity,
                       std::vector<std::string> racks = {},
                       std::optional<Ring> with_lost = std::nullopt);
    // Null until the first view is known.
    PlacementPtr placement() const;
    std::uint64_t self() const { return self_; }
    std::uint64_t identity() const;

    void beat() { last_beat_ = Clock::now(); }
    void set_news(std::string news);

    // Unavailable if another member was `wanted`: one that was started anew at the same address
    // must not answer for the one before. 0 is for whoever lives here.
    Status is_wanted(std::uint64_t wanted) const;

    // Tells Python only what it does not know yet.
    Result<ProbeReply> answer(ProbeMessage message);
    std::uint64_t probes() const { return probes_; }

  private:
    void replace(std::shared_ptr<Placement> placement);

    Events& events_;
    std::atomic<std::uint64_t> self_{0}, probes_{0};
    std::atomic<TimePoint> last_beat_{Clock::now()};
    mutable std::mutex mutex_;
    PlacementPtr placement_;
    std::string news_;
};

}  // namespace holdfast
