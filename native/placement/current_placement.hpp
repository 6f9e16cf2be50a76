// The placement that holds at this moment, who we are in it, and whom we suspect. Thread-safe,
// never blocks.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "base/mutex.hpp"
#include "base/status.hpp"
#include "placement/placement.hpp"

namespace holdfast {

class CurrentPlacement {
  public:
    void set_self(std::uint64_t number) { self_ = number; }
    void set(PlacementPtr placement);
    // Null until the first view is known.
    PlacementPtr get() const;
    std::uint64_t self() const { return self_; }  // 0: nobody
    std::uint64_t identity() const;

    // Members that we suspect at this moment; they still own what they own.
    void set_suspects(std::vector<std::uint64_t> suspects);
    bool suspects(std::uint64_t number) const;

    // Unavailable if another member was `wanted`: one that was started anew at the same address
    // must not answer for the one before. 0 is for whoever lives here.
    Status is_wanted(std::uint64_t wanted) const;

  private:
    std::atomic<std::uint64_t> self_{0};
    mutable Mutex mutex_;
    PlacementPtr placement_ GUARDED_BY(mutex_);
    std::vector<std::uint64_t> suspects_ GUARDED_BY(mutex_);
};

}  // namespace holdfast
