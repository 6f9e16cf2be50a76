// Which refreshes this node has heard of. Each is a notice of its own as well, so that rule 9
// carries it to every member, also to those whom nobody could tell: who learns of one that it does
// not know believes nothing of what it knew.
//
// A refresh reaches the nodes one after the other; one that has heard of it must not learn anew
// from one that has not what it has just forgotten. So what is asked of others names the refreshes
// of the last minute, and who does not know one of them revalidates everything, too. Thread-safe; a
// short lock, no I/O.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "base/clock.hpp"
#include "base/mutex.hpp"
#include "files/messages.hpp"
#include "rpc/wire.hpp"

namespace holdfast {

// As the text of a notice: one for all its paths, of a directory that they lie in.
struct RefreshNotice {
    std::string path;
    std::uint64_t number = 0;

    std::string encode() const { return MetaWriter().number(number).take() + path; }
    // Nothing if it is none.
    static std::optional<RefreshNotice> decode(const std::string& text) {
        if (text.size() <= sizeof(number)) return std::nullopt;
        return RefreshNotice{text.substr(sizeof(number)), MetaReader(text).number<std::uint64_t>()};
    }
};

class Refreshes {
  public:
    static constexpr auto kRecent = std::chrono::minutes(1);

    // From now on others are told of it.
    void tell(std::uint64_t number, TimePoint now) {
        Lock lock(mutex_);
        recent_.push_back({number, now});
        if (recent_.size() > TreeOrder::kMostRefreshes) recent_.pop_front();
    }
    // From now on it is known: everything that it concerns is forgotten.
    void done(std::uint64_t number) {
        Lock lock(mutex_);
        known_.insert(number);
    }
    bool knows(std::uint64_t number) const {
        Lock lock(mutex_);
        return known_.contains(number);
    }
    std::vector<std::uint64_t> recent(TimePoint now) const {
        Lock lock(mutex_);
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
    mutable Mutex mutex_;
    std::deque<Heard> recent_ GUARDED_BY(mutex_);
    std::unordered_set<std::uint64_t> known_ GUARDED_BY(mutex_);
};

}  // namespace holdfast
