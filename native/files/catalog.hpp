// What a node knows of the files that it serves: the attributes of each path as they were seen
// last. Rule 12 lets it believe them until they are refreshed. Thread-safe; a short lock, no I/O.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "base/clock.hpp"
#include "base/mutex.hpp"
#include "files/messages.hpp"

namespace holdfast {

class Catalog {
  public:
    explicit Catalog(std::size_t most = 1'000'000) : most_(most) {}

    struct Known {
        Attributes attributes;
        BootTime looked;                // when the shared file system was
        std::uint32_t listing_crc = 0;  // of a directory's listing
    };
    // Nothing if the path is not known, or was learnt before all had to be revalidated.
    std::optional<Known> find(const std::string& path) const;

    // Ask for the epoch before looking at a file: what was seen before a refresh that came
    // meanwhile is not learnt.
    std::uint64_t epoch() const;
    void learn(const std::string& path, const Attributes& attributes, std::uint64_t epoch,
               BootTime looked = BootClock::now(), std::uint32_t listing_crc = 0);

    // Called, with the lock held, whenever what was known may be wrong.
    void watch(std::function<void()> watch);
    // Nothing of what was seen so far is learnt any more.
    void advance();
    // The same, and what symbolic links lead to may not be used before it is revalidated.
    void distrust_links();
    // Forgets a path and all below it; gives how many.
    std::size_t refresh(const std::string& prefix);
    // Forgets one path, not what is below it.
    void forget(const std::string& path);
    // Nothing that is known may be used before it is revalidated: this node was away.
    void distrust();

  private:
    struct Entry {
        Known known;
        std::uint64_t learnt;
    };
    void make_room() REQUIRES(mutex_);
    std::uint64_t tick() REQUIRES(mutex_);

    const std::size_t most_;
    mutable Mutex mutex_;
    std::map<std::string, Entry> entries_ GUARDED_BY(mutex_);
    // The last that had to make room; the next one after it is next.
    std::string hand_ GUARDED_BY(mutex_);
    // Grows with each refresh; entries from before the last distrust() are not believed, those that
    // are not direct also not from before the last distrust_links().
    std::uint64_t epoch_ GUARDED_BY(mutex_) = 0;
    std::uint64_t distrusted_ GUARDED_BY(mutex_) = 0, links_distrusted_ GUARDED_BY(mutex_) = 0;
    std::function<void()> watch_ GUARDED_BY(mutex_);
};

}  // namespace holdfast
