// Lanes of an agent's pool. A put with n owners after this one runs in lane n, so that it only ever
// waits for lane n-1 of another agent.
#pragma once

#include "files/lanes.hpp"

namespace holdfast::lane {

constexpr std::size_t kPull = kBehindFiles;       // copies from other agents
constexpr std::size_t kCall = kBehindFiles + 1;   // waits for Python
constexpr std::size_t kRelay = kBehindFiles + 2;  // probes for others
constexpr std::size_t kAsk = kBehindFiles + 3;    // our own calls; they wait for kCall
constexpr std::size_t kProbe = kBehindFiles + 4;  // our own probes; they wait for kRelay
constexpr std::size_t kCount = kBehindFiles + 5;

}  // namespace holdfast::lane
