// What becomes part of an agent's story: requests that waited long or were refused, copies that
// went bad, tiers that were condemned.
//
// Thread-safe, never blocks. A request that is neither slow nor refused costs two looks at the
// clock: no lock, no memory. Of many incidents of one kind only some are told in each second; the
// next one tells how many were left out.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/clock.hpp"
#include "base/mutex.hpp"
#include "base/status.hpp"
#include "rpc/events.hpp"

namespace holdfast {

class Incidents {
  public:
    explicit Incidents(Events& events) : events_(events) {}

    // How many of each kind are told in a second.
    static constexpr std::uint32_t kMostInSecond = 16;

    void note(event::Incident incident);

  private:
    struct Recent {
        TimePoint second{};
        std::uint32_t told = 0;
        std::uint64_t left_out = 0;
    };

    Events& events_;
    Mutex mutex_;
    std::array<Recent, event::Incident::kKinds> recent_ GUARDED_BY(mutex_);
};

// One request, from its beginning to its end. The texts must outlive it.
class Wait {
  public:
    // A quarter of its deadline is long for a request, and so is this.
    static constexpr auto kLong = std::chrono::seconds(1);

    // What was asked for ("open", "put"), about which key or path, and of which address; an empty
    // one is us.
    Wait(Incidents& incidents, std::string_view what, std::string_view about, std::string_view with,
         Duration deadline, TimePoint began = Clock::now())
        : incidents_(incidents),
          what_(what),
          about_(about),
          with_(with),
          deadline_(deadline),
          began_(began) {}

    template <typename T>
    void ended(const Result<T>& result) {
        if (result.ok())
            ended(Status());
        else
            ended(result.status());
    }
    // `bytes` came meanwhile, which takes its time and is no waiting.
    void ended(const Status& status, std::uint64_t bytes = 0) {
        Duration waited = Clock::now() - began_;
        bool late =
            waited >= std::min<Duration>(deadline_ / 4, kLong) + std::chrono::microseconds(bytes);
        if (late || (with_.empty() && is_refusal(status)))
            tell(late ? event::Incident::Waited : event::Incident::Refused, status, waited);
    }

  private:
    // What others have refused is theirs to tell.
    static bool is_refusal(const Status& status);
    void tell(event::Incident::Kind kind, const Status& status, Duration waited) const;

    Incidents& incidents_;
    const std::string_view what_, about_, with_;
    const Duration deadline_;
    const TimePoint began_;
};

inline bool Wait::is_refusal(const Status& status) {
    switch (status.code()) {
        case Code::StaleView:
        case Code::Full:
        case Code::KeyExists:
        case Code::Busy:
            return status.at().empty();
        default:
            return false;
    }
}

}  // namespace holdfast
