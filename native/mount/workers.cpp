#include "mount/workers.hpp"

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <system_error>
#include <thread>
#include <utility>

#include "base/thread.hpp"

namespace holdfast::mount {
namespace {

constexpr int kMostThreads = 400;
// How many may wait for requests; the others end.
constexpr int kMostWaiting = 8;
constexpr auto kUntilRoom = std::chrono::milliseconds(10);

}  // namespace

Workers::Workers(fuse_session* session, std::atomic<std::uint64_t>& requests,
                 std::function<void()> ended)
    : session_(session), requests_(requests), ended_(std::move(ended)) {}

bool Workers::start() {
    Lock lock(mutex_);
    return start_one();
}

bool Workers::goes_on() {
    Lock lock(mutex_);
    bool answers = std::exchange(answered_before_, answered_) != answered_;
    return answers || waiting_ > 0 || threads_ < kMostThreads;
}

bool Workers::start_one() {
    try {
        start_thread([this] { serve(); }).detach();
    } catch (const std::system_error&) {
        return false;  // the limit of the user or of the cgroup: those that are there go on
    }
    ++threads_;
    ++waiting_;
    return true;
}

void Workers::serve() {
    fuse_buf request{};
    bool over = false, superfluous = false;
    while (!over && !superfluous) {
        int size = fuse_session_receive_buf(session_, &request);
        if (size == -EINTR || size == -EAGAIN) continue;
        if (size == -ENOMEM) {  // there is no room for a request: those who have some go on
            Lock lock(mutex_);
            superfluous = threads_ > 1;
            if (superfluous) --waiting_;
            lock.unlock();
            if (!superfluous) std::this_thread::sleep_for(kUntilRoom);
            continue;
        }
        over = size <= 0;  // it is no longer mounted anywhere
        if (over) break;
        {
            Lock lock(mutex_);
            if (--waiting_ == 0 && threads_ < kMostThreads) start_one();
        }
        ++requests_;
        fuse_session_process_buf(session_, &request);
        Lock lock(mutex_);
        ++answered_;
        superfluous = waiting_ >= kMostWaiting;
        if (!superfluous) ++waiting_;
    }
    std::free(request.mem);
    Lock lock(mutex_);
    --threads_;
    if (over) --waiting_;
    bool first = over && !over_;
    over_ = over_ || over;
    lock.unlock();
    if (first) ended_();
}

}  // namespace holdfast::mount
