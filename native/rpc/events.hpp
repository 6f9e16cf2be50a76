// What Python is told without having waited for it: how its requests ended, and what probes
// brought. Thread-safe, never blocks. Python waits for the descriptor to become readable, then
// takes all events with next().
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <variant>

#include "base/clock.hpp"
#include "base/fd.hpp"
#include "base/mutex.hpp"
#include "base/status.hpp"

namespace holdfast {

namespace event {
struct Answered {  // a probe
    std::uint64_t ticket = 0;
    std::uint32_t age_ms = 0;  // of the other's Python loop
    std::uint64_t identity = 0;
    std::string news;
    bool expected = false;  // nothing in it is new: Python need not be woken for it
};
struct Heard {  // somebody's probe
    std::uint64_t identity = 0;
    std::uint64_t sender = 0;
    std::string news;
};
struct Reply {  // to a call
    std::uint64_t ticket = 0;
    std::string message;
};
struct Pulled {
    std::uint64_t ticket = 0;
    std::uint64_t size = 0;
};
struct Doubted {  // it failed a program of this node that wanted a file
    std::uint64_t member = 0;
    std::string path;
    Status status;
};
struct Incident {  // for the story; rpc/incidents.hpp
    enum Kind : std::uint8_t { Waited, Refused, Lost, Condemned };
    static constexpr std::size_t kKinds = 4;

    Kind kind = Waited;
    std::string what;    // was asked for, or the tier
    std::string about;   // key or path
    std::string with{};  // address of another agent, if it was one
    Status status;       // how it ended, or why
    Duration waited{};
    Duration deadline{};
    BootTime ended{};
    std::uint64_t left_out = 0;  // of the same kind, before this one
};
struct Failed {
    std::uint64_t ticket = 0;
    Status status;
};
}  // namespace event

using Event = std::variant<event::Answered, event::Heard, event::Reply, event::Pulled,
                           event::Doubted, event::Incident, event::Failed>;

class Events {
  public:
    Events();

    // What was heard while Python has much to read is left out: it will be told again.
    void push(Event event);
    std::optional<Event> next();
    int fd() const { return ready_.get(); }

  private:
    Mutex mutex_;
    std::deque<Event> queue_ GUARDED_BY(mutex_);
    std::size_t heard_ GUARDED_BY(mutex_) = 0;  // of those in the queue
    bool woken_ GUARDED_BY(mutex_) = false;     // the descriptor is readable
    Fd ready_;                                  // an eventfd
};

}  // namespace holdfast
