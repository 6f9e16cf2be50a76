// Single-use files: what another node holds is received into one, which is then passed to readers
// and never written again, nor used for anything else.
//
// Fresh pages cost more than the network, so a thread keeps spare files whose pages are there
// already: again what was taken last, in a few sizes, within a limit. (They are not mapped: whoever
// unmaps one waits while another is being mapped.) Until it is passed
// a file counts in the capacity of the memory tier; from then on its pages are the readers', and go
// with the last of them. Files have no name, so nothing is left of them whatever happens.
//
// Thread-safe. take() makes a file if no spare fits, which may evict objects, so it may block.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "base/clock.hpp"
#include "base/fd.hpp"
#include "base/status.hpp"
#include "store/store.hpp"

namespace holdfast {

// A file to be written once, by one thread, front to back. seal() ends that and gives what readers
// get.
class SingleUse {
  public:
    SingleUse(SingleUse&& other) noexcept;
    SingleUse& operator=(SingleUse&&) = delete;
    ~SingleUse();

    bool spare() const { return spare_; }  // its pages were there already
    Status write(const char* data, std::size_t size);
    // A read-only descriptor of the file, if it has `size` bytes by now; nobody can write to it any
    // more.
    Result<Fd> seal(std::uint64_t size) &&;

  private:
    friend class Spares;
    static Result<SingleUse> make(Store& store, std::uint64_t room);
    SingleUse(Store* store, std::uint64_t room) : store_(store), room_(room) {}
    Status allocate();

    Store* store_;
    std::uint64_t room_;  // of the tier
    Fd writing_, reading_;
    bool spare_ = false;
    std::uint64_t written_ = 0;
};

class Spares {
  public:
    explicit Spares(Store& store) : store_(store) { set_limit(32 << 20); }
    ~Spares();

    // How many bytes to keep, at most; never more than an eighth of the memory tier.
    void set_limit(std::uint64_t bytes);
    Result<SingleUse> take(std::uint64_t size);
    std::uint64_t kept();  // bytes, at this moment

    // The size of the spare file that is made for so many bytes.
    static std::uint64_t room_for(std::uint64_t size);

  private:
    struct Size {
        std::size_t wanted = 0;  // as often as it is among those taken last
        std::vector<SingleUse> ready;
    };
    void run();
    // With the lock held.
    void remember(std::uint64_t room);
    void forget_oldest();
    std::uint64_t next();  // to be made, after those were discarded that nobody wants; 0: none

    Store& store_;
    std::mutex mutex_;
    std::condition_variable wake_;
    std::map<std::uint64_t, Size> sizes_;
    std::deque<std::uint64_t> taken_;  // the sizes taken last, the latest in front
    std::uint64_t taken_bytes_ = 0;    // of these; never beyond the limit
    std::uint64_t kept_ = 0, limit_ = 0;
    bool asleep_ = true;  // until enough are taken
    bool stopping_ = false;
    std::thread maker_;  // from the first take() on
};

}  // namespace holdfast
