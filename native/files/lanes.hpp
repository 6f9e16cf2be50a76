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
// Requests of a broadcast by how many nodes may still be asked one above the other: with n, a
// request waits for n-1 and less of others, and with none for the shared file system only.
constexpr std::size_t kTree = kMaxCopies + 6;
constexpr std::size_t kBehindFiles = kTree + TreeOrder::kMostHops + 1;

}  // namespace holdfast::lane
