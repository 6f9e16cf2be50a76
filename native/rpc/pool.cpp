#include "rpc/pool.hpp"

#include <chrono>
#include <iterator>
#include <system_error>

#include "base/log.hpp"
#include "base/thread.hpp"

namespace holdfast {
namespace {

constexpr auto kIdleTime = std::chrono::seconds(10);

}  // namespace

Pool::Pool(std::size_t lanes, std::size_t threads_per_lane)
    : lanes_(lanes), threads_per_lane_(threads_per_lane) {}

Pool::~Pool() {
    stop();
}

void Pool::stop() {
    Lock lock(mutex_);
    stopping_ = true;
    std::deque<std::function<void()>> dropped;
    for (Lane& lane : lanes_) {
        dropped.insert(dropped.end(), std::make_move_iterator(lane.queue.begin()),
                       std::make_move_iterator(lane.queue.end()));
        lane.queue.clear();
        lane.wake.notify_all();
    }
    // What runs may wait for what is dropped to end, and that may come back to us.
    lock.unlock();
    dropped.clear();
    lock.lock();
    ended_.wait(lock, [&]() REQUIRES(mutex_) { return threads_ == 0; });
}

void Pool::run(std::size_t lane_index, std::function<void()> work) {
    Lock lock(mutex_);
    if (stopping_) return;
    Lane& lane = lanes_.at(lane_index);
    lane.queue.push_back(std::move(work));
    if (lane.queue.size() <= lane.idle) {
        lock.unlock();  // whoever wakes would only wait for it
        lane.wake.notify_one();
    } else if (lane.threads < threads_per_lane_) {
        try {
            start_thread([this, &lane] { serve(lane); }).detach();
        } catch (const std::system_error&) {  // the limit of the user or of the cgroup
            log_warning("cannot start more threads");
            // Others of the lane come to it in time; if there are none it is dropped.
            if (lane.threads == 0) {
                work = std::move(lane.queue.back());
                lane.queue.pop_back();
            }
            return;  // `work` goes when the lock is open
        }
        ++lane.threads;
        ++threads_;
    }
}

void Pool::serve(Lane& lane) {
    Lock lock(mutex_);
    while (!stopping_) {
        if (lane.queue.empty()) {
            ++lane.idle;
            bool woken = lane.wake.wait_for(lock, kIdleTime, [&]() REQUIRES(mutex_) {
                return stopping_ || !lane.queue.empty();
            });
            --lane.idle;
            if (!woken) break;
            continue;
        }
        auto work = std::move(lane.queue.front());
        lane.queue.pop_front();
        lock.unlock();
        work();
        work = nullptr;  // what it holds goes before the lock is taken
        lock.lock();
    }
    --lane.threads;
    if (--threads_ == 0) ended_.notify_all();
}

}  // namespace holdfast
