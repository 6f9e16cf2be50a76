// Read-through from the shared file system: one fill per object however many ask, served while it
// is being stored, kept only if the file stayed the same from before the first byte to after the
// last.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "rpc/handler.hpp"
#include "rpc/pool.hpp"
#include "store/messages.hpp"
#include "store/store.hpp"

namespace holdfast {

// One fill in progress. Thread-safe.
class Fill : public Growing {
  public:
    Progress progress() const override;
    void wake_beyond(std::uint64_t bytes, std::function<void()> wake) override;
    FileSlice file() const override { return file_; }

    // Waits until the source is open and its size known, or until that failed.
    Status wait_until_open(Duration patience);

  private:
    friend class Fills;
    Status open(Store& store, const FillMessage& message);
    void run(const Identity& expected);
    void opened(Status status);
    void advance(std::uint64_t bytes);
    void end(bool failed, std::uint32_t crc);

    Fd source_;
    std::uint64_t device_ = 0;
    std::optional<Writer> writer_;
    FileSlice file_;  // set before it is open, constant from then on

    mutable std::mutex mutex_;
    std::condition_variable opened_;
    std::optional<Status> open_status_;
    Progress progress_;
    struct Waiter {
        std::uint64_t bytes;
        std::function<void()> wake;
    };
    std::vector<Waiter> waiters_;
};

class Fills {
  public:
    // `lane` of the pool reads sources; nothing there waits for another agent.
    Fills(Store& store, Pool& pool, std::size_t lane) : store_(store), pool_(pool), lane_(lane) {}

    // May block. Joins a fill in progress or starts one; null if the object is stored by now.
    Result<std::shared_ptr<Growing>> join(const FillMessage& message, Duration patience);

    struct Counters {
        std::atomic<std::uint64_t> started{0}, joined{0}, bytes{0};
    };
    const Counters& counters() const { return counters_; }

  private:
    void finish(const std::string& key);

    Store& store_;
    Pool& pool_;
    const std::size_t lane_;
    std::mutex mutex_;
    std::map<std::string, std::shared_ptr<Fill>> running_;
    Counters counters_;
};

}  // namespace holdfast
