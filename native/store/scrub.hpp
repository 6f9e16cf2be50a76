// Reads everything in the store again and again, slowly, so that a copy that went bad is found
// before it is needed. A thread of its own; stops with the object.
#pragma once

#include <thread>

#include "base/mutex.hpp"
#include "store/store.hpp"

namespace holdfast {

class Scrub {
  public:
    // Reads at most `bytes_per_second`; 0 means never.
    Scrub(Store& store, std::uint64_t bytes_per_second);
    ~Scrub();

  private:
    void run();
    bool rest(double seconds);  // false when it is time to stop

    Store& store_;
    const double rate_;
    Mutex mutex_;
    Condition wake_;
    bool stopping_ GUARDED_BY(mutex_) = false;
    std::thread thread_;
};

}  // namespace holdfast
