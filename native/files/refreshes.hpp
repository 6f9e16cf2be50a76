// Which refreshes this node has heard of. A refresh reaches the nodes one after the other; whoever
// has heard of it must not learn anew from one who has not what it has just forgotten. So what is
// asked of others names the refreshes of the last minute, and whoever does not know one of them
// believes nothing of what it knew. Thread-safe; a short lock, no I/O.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <mutex>
#include <unordered_set>
#include <vector>

#include "base/clock.hpp"
#include "files/messages.hpp"

namespace holdfast {

class Refreshes {
  public:
    static constexpr auto kRecent = std::chrono::minutes(1);

    // From now on others are told of it.
    void tell(std::uint64_t number, TimePoint now) {
        std::lock_guard lock(mutex_);
        recent_.push_back({number, now});
        if (recent_.size() > TreeOrder::kMostRefreshes) recent_.pop_front();
    }
    // From now on it is known: everything that it concerns is forgotten.
    void done(std::uint64_t number) {
        std::lock_guard lock(mutex_);
        known_.insert(number);
    }
    bool knows(std::uint64_t number) const {
        std::lock_guard lock(mutex_);
        return known_.contains(number);
    }
    std::vector<std::uint64_t> recent(TimePoint now) const {
        std::lock_guard lock(mutex_);
        std::vector<std::uint64_t> numbers;
        for (auto& [number, heard] : recent_)
            if (heard > now - kRecent) numbers.push_back(number);
        return numbers;
    }

  private:
    struct Heard {
        std::uint64_t number;
        TimePoint at;
    };
    mutable std::mutex mutex_;
    std::deque<Heard> recent_;
    std::unordered_set<std::uint64_t> known_;
};

}  // namespace holdfast
