// How full the shared file system is, for `df`, which must not hang when that does.
//
// Thread-safe. get() waits a moment for figures that are fresh, and gives old ones if the shared
// file system is slow; a thread of its own asks it.
#pragma once

#include <sys/statvfs.h>

#include <condition_variable>
#include <mutex>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "mount/settings.hpp"

namespace holdfast::mount {

class FsUsage {
  public:
    // Its thread runs until the process ends.
    explicit FsUsage(const Settings& settings);

    // Of a root; of the first one if it is null.
    struct statvfs get(const Root* root);

  private:
    void run();

    const Settings& settings_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<struct statvfs> known_;
    bool wanted_ = true;
    TimePoint asked_{};
};

}  // namespace holdfast::mount
