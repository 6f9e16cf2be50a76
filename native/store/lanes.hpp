// Lanes of an agent's pool. A put with n owners after this one runs in lane n, so that it only ever
// waits for lane n-1 of another agent.
#pragma once

#include <cstddef>

#include "files/messages.hpp"
#include "placement/ring.hpp"

namespace holdfast::lane {

constexpr std::size_t kDisk = kMaxCopies;        // reads of files that may block
constexpr std::size_t kOpen = kMaxCopies + 1;    // looks at the shared file system, and its opens
constexpr std::size_t kFill = kMaxCopies + 2;    // reads of the shared file system
constexpr std::size_t kPull = kMaxCopies + 3;    // copies from other agents
constexpr std::size_t kCall = kMaxCopies + 4;    // waits for Python
constexpr std::size_t kRelay = kMaxCopies + 5;   // probes for others
constexpr std::size_t kAsk = kMaxCopies + 6;     // our own calls; they wait for kCall
constexpr std::size_t kProbe = kMaxCopies + 7;   // our own probes; they wait for kRelay
constexpr std::size_t kFetch = kMaxCopies + 8;   // files for our programs; wait for kOpen, kDisk
constexpr std::size_t kWarm = kMaxCopies + 9;    // waits for fills to end
constexpr std::size_t kLeave = kMaxCopies + 10;  // changes of our programs; wait for kDisk
// Requests of a broadcast by how many nodes may still be asked one above the other: with n, a
// request waits for n-1 and less of others, and with none for the shared file system only.
constexpr std::size_t kTree = kMaxCopies + 11;
constexpr std::size_t kCount = kTree + TreeOrder::kMostHops + 1;

}  // namespace holdfast::lane
