// Control messages on their way to the Python side and back.
// Thread-safe. ask() blocks a pool thread until Python answers or its deadline ends; park() blocks
// nobody, and has no deadline but Python's. Python waits for the descriptor to become readable,
// takes all calls with next() and answers each once; take_cancelled() tells it of those parked
// calls among them that nobody waits for any more.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/clock.hpp"
#include "base/fd.hpp"
#include "base/mutex.hpp"
#include "base/status.hpp"

namespace holdfast {

class Calls {
  public:
    Calls();

    Result<std::string> ask(std::string service, std::string method, std::string message,
                            Duration deadline);

    // A call of our own that nobody waits for.
    void tell(std::string service, std::string method, std::string message);

    // Gives its number. `reply` is called once, by whoever answers, unless cancel() comes before:
    // then it is never called, and Python does not see the call or learns that it is cancelled.
    using Reply = std::function<void(Result<std::string>)>;
    Result<std::uint64_t> park(std::string service, std::string method, std::string message,
                               Duration within, Reply reply);
    void cancel(std::uint64_t id);

    struct Call {
        std::uint64_t id;
        std::string service, method, message;
        std::optional<Duration> within;  // of a parked one: how long it may wait
    };
    std::optional<Call> next();
    void answer(std::uint64_t id, Result<std::string> result);
    std::vector<std::uint64_t> take_cancelled();
    int fd() const { return ready_.get(); }

    // Fails what waits and what comes.
    void close();

  private:
    std::uint64_t enqueue(std::string service, std::string method, std::string message,
                          std::optional<Duration> within = {}) REQUIRES(mutex_);
    void dequeue(std::map<std::uint64_t, Call>::iterator call) REQUIRES(mutex_);

    Mutex mutex_;
    Condition answered_;
    // By number, so in the order in which they came.
    std::map<std::uint64_t, Call> queue_ GUARDED_BY(mutex_);
    std::size_t queued_bytes_ GUARDED_BY(mutex_) = 0;  // of messages
    std::map<std::uint64_t, std::optional<Result<std::string>>> waiting_ GUARDED_BY(mutex_);
    std::unordered_map<std::uint64_t, Reply> parked_ GUARDED_BY(mutex_);
    std::vector<std::uint64_t> cancelled_ GUARDED_BY(mutex_);  // after Python took them
    std::uint64_t next_id_ GUARDED_BY(mutex_) = 1;
    bool closed_ GUARDED_BY(mutex_) = false;
    Fd ready_;  // an eventfd
};

}  // namespace holdfast
