// Who is let in, so that whoever can merely reach the port keeps nobody else out. Strangers,
// connections over TCP that have proved nothing yet, have few places, and the oldest makes room for
// the next. Unix sockets and TCP each leave an eighth of all places to the other.
//
// Thread-safe, never blocks. A connection leaves before its descriptor is closed.
#pragma once

#include <array>
#include <cstddef>
#include <deque>
#include <mutex>
#include <set>

#include "base/status.hpp"

namespace holdfast {

class Admission {
  public:
    explicit Admission(std::size_t most);

    // True if the oldest stranger was shut down to make room.
    Result<bool> enter(int fd, bool local);
    void prove(int fd);  // it is no stranger any more
    void leave(int fd);
    // Shuts down all, and lets nobody in from now on.
    void end();

  private:
    bool full(bool local) const;
    bool cut_oldest_stranger();

    const std::size_t most_, most_of_a_kind_, most_strangers_;
    std::mutex mutex_;
    std::array<std::set<int>, 2> open_;  // [local]
    std::deque<int> strangers_;          // among those over TCP, the oldest first
    bool ended_ = false;
};

}  // namespace holdfast
