// The threads that answer the kernel: always one more than are busy, up to a limit, so that what
// waits for a slow storage holds up nobody else.
//
// Thread-safe. It must live until the process ends.
#pragma once

#define FUSE_USE_VERSION 314
#include <fuse3/fuse_lowlevel.h>

#include <atomic>
#include <functional>
#include <mutex>

namespace holdfast::mount {

class Serving {
  public:
    // `ended` is called once, when nothing is mounted any more.
    Serving(fuse_session* session, std::atomic<std::uint64_t>& requests,
            std::function<void()> ended);

    // False if no thread can be started.
    bool start();
    // Whether a request that came now would be answered by somebody.
    bool has_room() const;

  private:
    void serve();
    bool start_one();

    fuse_session* const session_;
    std::atomic<std::uint64_t>& requests_;
    const std::function<void()> ended_;
    mutable std::mutex mutex_;
    int threads_ = 0, waiting_ = 0;
    bool over_ = false;
};

}  // namespace holdfast::mount
