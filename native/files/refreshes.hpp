// Which refreshes this node has heard of. Each is a dropped key of its own as well, so that rule 9
// carries it to every member, also to those whom nobody could tell: who learns of one that it does
// not know believes nothing of what it knew.
//
// A refresh reaches the nodes one after the other; whoever has heard of it must not learn anew from
// one who has not what it has just forgotten. So what is asked of others names the refreshes of the
// last minute, and whoever does not know one of them looks at everything again, too.
// Thread-safe; a short lock, no I/O.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "base/clock.hpp"
#include "files/messages.hpp"
#include "rpc/wire.hpp"

namespace holdfast {

// A refresh as a dropped key: one for all its paths, of a directory that they lie in.
struct RefreshKey {
    std::string path;
    std::uint64_t number = 0;

    static constexpr std::string_view kWhat = "look";

    std::string encode() const {
        return file_prefix(path) + std::string(kWhat) + MetaWriter().number(number).take();
    }
    // Nothing if the key says something else.
    static std::optional<RefreshKey> decode(const std::string& key) {
        constexpr std::size_t kPrefix = sizeof kFilePrefix - 1;
        auto end = key.find('\0');
        if (!key.starts_with(kFilePrefix) || end == std::string::npos) return std::nullopt;
        std::string_view rest = std::string_view(key).substr(end + 1);
        if (rest.size() != kWhat.size() + sizeof(number) || !rest.starts_with(kWhat))
            return std::nullopt;
        return RefreshKey{key.substr(kPrefix, end - kPrefix),
                          MetaReader(rest.substr(kWhat.size())).number<std::uint64_t>()};
    }
};

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
