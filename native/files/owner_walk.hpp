// Whom to ask for a file, and what to do when an owner fails: the one decision, of agents and of
// programs alike.
//
// Under Recache the owners among those who live are asked in the order of the ring, each standing
// in for those before it. Under Redirect and Abort only the owner is, and it stays the owner when
// it dies: nobody takes over, until a member of its node lives again. What a member says that lives
// is its caller's to judge. Not thread-safe; pure, the clock is an argument.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.hpp"
#include "files/messages.hpp"
#include "files/trust.hpp"
#include "placement/placement.hpp"

namespace holdfast {

class OwnerWalk {
  public:
    // How many are asked one after the other before the shared file system itself.
    static constexpr std::size_t kMostAsked = 4;

    OwnerWalk(PlacementPtr placement, std::string_view key, OnFailure policy);

    // The place in the ring's nodes of the member to ask now: the same until it failed. None: the
    // shared file system is to be read, or, if it aborts(), nothing.
    std::optional<std::uint32_t> next(const Trust& trust, TimePoint now);
    // The one that was to be asked.
    void failed();
    // Whether those before the one to ask failed.
    bool stands_in() const { return at_ > 0; }

    bool aborts() const { return policy_ == OnFailure::Abort && !failed_.empty(); }
    // Why, for a reader; and the node of the last that failed.
    std::string reason() const;
    const std::string& last() const { return failed_; }
    const Placement& placement() const { return *placement_; }

  private:
    PlacementPtr placement_;
    const OnFailure policy_;
    std::array<std::uint32_t, kMostAsked> owners_;
    std::size_t count_ = 0, at_ = 0;
    std::string failed_;
};

}  // namespace holdfast
