// The threads that answer the kernel: always one more than are busy, up to a limit, so that what
// waits for a slow shared file system holds up nobody else.
//
// Thread-safe. It must live until the process ends.
#pragma once

#define FUSE_USE_VERSION 314
#include <fuse3/fuse_lowlevel.h>

#include <atomic>
#include <functional>

#include "base/mutex.hpp"

namespace holdfast::mount {

class Workers {
  public:
    // `ended` is called once, when nothing is mounted any more.
    Workers(fuse_session* session, std::atomic<std::uint64_t>& requests,
            std::function<void()> ended);

    // False if no thread can be started.
    bool start();
    // Whether a request that came now would be answered by somebody, or has been answered since
    // this was asked last: then one that waits has its turn.
    bool goes_on();

  private:
    void serve();
    bool start_one() REQUIRES(mutex_);

    fuse_session* const session_;
    std::atomic<std::uint64_t>& requests_;
    const std::function<void()> ended_;
    Mutex mutex_;
    int threads_ GUARDED_BY(mutex_) = 0, waiting_ GUARDED_BY(mutex_) = 0;
    std::uint64_t answered_ GUARDED_BY(mutex_) = 0, answered_before_ GUARDED_BY(mutex_) = 0;
    bool over_ GUARDED_BY(mutex_) = false;
};

}  // namespace holdfast::mount
