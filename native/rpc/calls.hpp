// Control messages on their way to the Python side and back.
// Thread-safe. ask() blocks a pool thread until Python answers or its deadline ends; Python waits
// for the descriptor to become readable, takes all calls with next() and answers each once.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "base/clock.hpp"
#include "base/fd.hpp"
#include "base/status.hpp"

namespace holdfast {

class Calls {
  public:
    Calls();

    Result<std::string> ask(std::string service, std::string method, std::string message,
                            Duration deadline);

    // A call of our own that nobody waits for.
    void tell(std::string service, std::string method, std::string message);

    struct Call {
        std::uint64_t id;
        std::string service, method, message;
    };
    std::optional<Call> next();
    void answer(std::uint64_t id, Result<std::string> result);
    int fd() const { return ready_.get(); }

    // Fails what waits and what comes.
    void close();

  private:
    std::mutex mutex_;
    std::condition_variable answered_;
    std::deque<Call> queue_;
    std::map<std::uint64_t, std::optional<Result<std::string>>> waiting_;
    std::uint64_t next_id_ = 1;
    bool closed_ = false;
    Fd ready_;  // an eventfd
};

}  // namespace holdfast
