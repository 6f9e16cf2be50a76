// Who is let in, so that one who can merely reach the port keeps nobody else out. Strangers,
// connections over TCP that have proved nothing yet, have few places, and the oldest makes room for
// the next. Unix sockets and TCP each leave an eighth of all places to the other.
//
// Thread-safe, never blocks. A connection leaves before its descriptor is closed.
#pragma once

#include <array>
#include <cstddef>
#include <deque>
#include <set>

#include "base/mutex.hpp"
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
    bool full(bool local) const REQUIRES(mutex_);
    bool cut_oldest_stranger() REQUIRES(mutex_);

    const std::size_t most_, most_of_a_kind_, most_strangers_;
    Mutex mutex_;
    std::array<std::set<int>, 2> open_ GUARDED_BY(mutex_);  // [local]
    std::deque<int> strangers_ GUARDED_BY(mutex_);  // among those over TCP, the oldest first
    bool ended_ GUARDED_BY(mutex_) = false;
};

}  // namespace holdfast
