// Lanes of an agent's pool in which work on files waits; agent/lanes.hpp has the others. Those
// below kDisk are for puts.
#pragma once

#include <cstddef>

#include "files/messages.hpp"
#include "placement/ring.hpp"

namespace holdfast::lane {

constexpr std::size_t kDisk = kMaxCopies;       // reads of files that may block
constexpr std::size_t kOpen = kMaxCopies + 1;   // looks at the shared file system, and its opens
constexpr std::size_t kFill = kMaxCopies + 2;   // reads of the shared file system
constexpr std::size_t kFetch = kMaxCopies + 3;  // files for our programs; wait for kOpen, kDisk
constexpr std::size_t kWarm = kMaxCopies + 4;   // waits for fills to end
constexpr std::size_t kInvalidate = kMaxCopies + 5;  // changes of our programs; wait for kDisk
// A request of a broadcast runs in lane kTree + its hops left. It waits only for requests with
// fewer, and without any for the shared file system: no cycle, even where views disagree.
constexpr std::size_t kTree = kMaxCopies + 6;
constexpr std::size_t kBehindFiles = kTree + TreeOrder::kMostHops + 1;

}  // namespace holdfast::lane
