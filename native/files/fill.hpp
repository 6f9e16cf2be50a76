// Read-through from the shared file system: one fill per object however many ask, served while it
// is being stored. It fails unless the file stayed the same from before the first look to after the
// last byte, so nobody takes a mixture of two versions for a file.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/mutex.hpp"
#include "base/single_flight.hpp"
#include "files/messages.hpp"
#include "files/resolve.hpp"
#include "rpc/handler.hpp"
#include "rpc/pool.hpp"
#include "store/store.hpp"

namespace holdfast {

// What is to be read, and what becomes of it.
struct FillOrder {
    std::string key;
    Place place;
    Tier tier = Tier::Memory;
    std::uint16_t copies = 1;
    bool keep = true;
    std::function<void()> kept = {};  // called when it was
    bool seldom = false;              // not again so soon: for requests that come by the hundred
};

// One fill in progress. Thread-safe.
class Fill : public Growing {
  public:
    Progress progress() const override;
    void wake_beyond(std::uint64_t bytes, std::function<void()> wake) override;
    FileSlice file() const override { return file_; }

    // Waits until these bytes, which begin with a chunk, were read, and gives their checksum.
    // Whether they are of one version is known when the fill has ended, and not by this.
    Result<std::uint32_t> wait_for(const Range& range, Duration deadline);

  private:
    friend class Fills;
    Status open(Store& store, const FillOrder& source);
    // Reads it to its end and tells how that went; who reads along learns it from end().
    Progress run(const FillOrder& source);
    void close();
    bool unchanged(const Attributes& before) const;
    void advance(std::uint64_t bytes);
    void end(Progress last);

    Fd input_;
    std::optional<Writer> writer_;
    FileSlice file_;  // set before it is open, constant from then on

    mutable Mutex mutex_;
    Progress progress_ GUARDED_BY(mutex_);
    std::vector<std::uint32_t> chunks_ GUARDED_BY(mutex_);  // as in Object, of those that are whole
    struct Waiter {
        std::uint64_t bytes;
        std::function<void()> wake;
    };
    std::vector<Waiter> waiters_ GUARDED_BY(mutex_);
};

// The checksum of a range that begins with a chunk and ends with one, or with the file.
std::uint32_t crc_of(const std::vector<std::uint32_t>& chunks, std::uint64_t file_size,
                     const Range& range);

// May block: waits until a file that grows is whole, as long as it does grow within each
// `deadline`.
Status wait_until_whole(Growing& growing, Duration deadline);

class Fills {
  public:
    // `lane` of the pool reads sources; nothing there waits for another agent.
    Fills(Store& store, Pool& pool, std::size_t lane) : store_(store), pool_(pool), lane_(lane) {}

    // May block. Joins a fill in progress or starts one; null if the object is stored by now.
    // The file is opened, and read if it is small, by the one who starts it.
    Result<std::shared_ptr<Fill>> join(FillOrder source, Duration deadline);

    struct Counters {
        std::atomic<std::uint64_t> started{0}, bytes{0};
    };
    const Counters& counters() const { return counters_; }
    std::uint64_t joined() const { return flights_.joined(); }

  private:
    class Run;
    // A flight lasts from before the source is opened until all of it was read and, if it may be,
    // stored; its value is there, a fill to read along with, when the source is open.
    using Flights = SingleFlight<std::string, Result<std::shared_ptr<Fill>>>;
    Result<std::shared_ptr<Fill>> start(FillOrder source, Flights::Ticket flight);
    // Whether it may be read now.
    bool is_due(const std::string& key);

    Store& store_;
    Pool& pool_;
    const std::size_t lane_;
    Flights flights_;
    Mutex mutex_;
    std::map<std::string, TimePoint> seldom_ GUARDED_BY(mutex_);  // when those were last read
    Counters counters_;
};

}  // namespace holdfast
