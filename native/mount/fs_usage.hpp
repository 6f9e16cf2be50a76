// How full the shared file system is, for `df`, which must not hang when that does.
//
// Thread-safe. get() waits a moment for figures that are fresh, and gives old ones if the shared
// file system is slow; a thread of its own asks it.
#pragma once

#include <sys/statvfs.h>

#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/mutex.hpp"
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
    Mutex mutex_;
    Condition changed_;
    std::vector<struct statvfs> known_ GUARDED_BY(mutex_);
    bool wanted_ GUARDED_BY(mutex_) = true;
    TimePoint asked_ GUARDED_BY(mutex_){};
};

}  // namespace holdfast::mount
