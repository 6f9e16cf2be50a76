// The requests of one connection that are answered later, and when its peer is due a heartbeat.
// Belongs to the connection, so to its loop's thread; nothing blocks. What is left when the
// connection goes is cancelled.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

#include "base/clock.hpp"
#include "rpc/handler.hpp"

namespace holdfast {

// Within which the silence that a peer bears is taken at its word: agents would do nothing but send
// heartbeats, or clients not notice their end.
constexpr Duration kLeastSilence = std::chrono::milliseconds(100);
constexpr Duration kMostSilence = std::chrono::seconds(120);

class ParkedRequests {
  public:
    static constexpr std::size_t kMost = 1024;

    ParkedRequests() = default;
    ParkedRequests(const ParkedRequests&) = delete;
    ParkedRequests& operator=(const ParkedRequests&) = delete;
    ~ParkedRequests() {
        for (auto& [request, cancel] : requests_) cancel();
    }

    bool empty() const { return requests_.empty(); }
    bool full() const { return requests_.size() >= kMost; }
    // Numbers grow, from 1 on, so that none can be taken for an earlier one that was cancelled.
    bool is_next(std::uint64_t request) { return request > std::exchange(last_, request); }

    // `silence` is what its peer bears.
    void add(std::uint64_t request, Duration silence, TimePoint now, Parked::Cancel cancel) {
        silence = std::clamp(silence, kLeastSilence, kMostSilence);
        if (empty()) {
            silence_ = silence;
            beaten(now);
        } else if (silence < silence_) {
            silence_ = silence;
            heartbeat_due_ = std::min(heartbeat_due_, now + silence_ / 4);
        }
        requests_.emplace(request, std::move(cancel));
    }
    // It has been answered; false if it was cancelled before.
    bool answered(std::uint64_t request) { return requests_.erase(request) > 0; }
    void cancel(std::uint64_t request) {
        if (auto found = requests_.extract(request)) found.mapped()();
    }

    // The least that any of them bears.
    Duration silence() const { return silence_; }
    TimePoint heartbeat_due() const { return heartbeat_due_; }
    void beaten(TimePoint now) { heartbeat_due_ = now + silence_ / 4; }

  private:
    std::map<std::uint64_t, Parked::Cancel> requests_;
    std::uint64_t last_ = 0;
    Duration silence_ = kLeastSilence;
    TimePoint heartbeat_due_{};
};

}  // namespace holdfast
