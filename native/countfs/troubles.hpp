// How the storage misbehaves: for chosen paths, an error or silence until it is healed.
//
// Thread-safe. `meet` blocks while a trouble says so; the caller's own death ends that.
#pragma once

#define FUSE_USE_VERSION 31
#include <fuse3/fuse_lowlevel.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

namespace holdfast::storage {

class Troubles {
  public:
    static constexpr int kHang = 0;

    // From now on `operation` (open, read, write or stat) of `path`, and of all that is below it,
    // fails with `error`, or hangs.
    void set(std::string path, std::string operation, int error) {
        std::lock_guard lock(mutex_);
        by_place_[{std::move(operation), std::move(path)}] = error;
        any_ = true;
    }

    // What hangs goes on.
    void heal() {
        std::lock_guard lock(mutex_);
        by_place_.clear();
        any_ = false;
        healed_.notify_all();
    }

    // Returns the error that a request meets, or 0.
    int meet(fuse_req_t request, const std::string& path, const char* operation) {
        if (!any_) return 0;
        std::unique_lock lock(mutex_);
        while (const int* error = find(path, operation)) {
            if (*error != kHang) return *error;
            if (fuse_req_interrupted(request)) return EINTR;  // else it could not even be killed
            healed_.wait_for(lock, kLookEvery);
        }
        return 0;
    }

  private:
    static constexpr std::chrono::milliseconds kLookEvery{20};

    const int* find(const std::string& path, std::string_view operation) const {
        for (const auto& [place, error] : by_place_) {
            const auto& [what, top] = place;
            if (what == operation && path.starts_with(top) &&
                (top.empty() || path.size() == top.size() || path[top.size()] == '/'))
                return &error;
        }
        return nullptr;
    }

    std::atomic<bool> any_{false};
    std::mutex mutex_;
    std::condition_variable healed_;
    std::map<std::pair<std::string, std::string>, int> by_place_;
};

}  // namespace holdfast::storage
