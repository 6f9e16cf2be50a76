// The placement that holds at this moment, and who we are in it. Thread-safe, never blocks.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "placement/placement.hpp"

namespace holdfast {

class CurrentPlacement {
  public:
    void set_self(std::uint64_t number);
    void set(Ring ring, std::vector<std::uint64_t> numbers, std::vector<std::string> addresses,
             std::uint64_t identity, std::vector<std::string> racks = {},
             std::optional<Ring> with_lost = std::nullopt);
    // Null until the first view is known.
    PlacementPtr get() const;
    std::uint64_t self() const { return self_; }
    std::uint64_t identity() const;

    // Unavailable if another member was `wanted`: one that was started anew at the same address
    // must not answer for the one before. 0 is for whoever lives here.
    Status is_wanted(std::uint64_t wanted) const;

  private:
    void replace(std::shared_ptr<Placement> placement);

    std::atomic<std::uint64_t> self_{0};
    mutable std::mutex mutex_;
    PlacementPtr placement_;
};

}  // namespace holdfast
