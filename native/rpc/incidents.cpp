#include "rpc/incidents.hpp"

#include <utility>

namespace holdfast {

void Incidents::note(event::Incident incident) {
    incident.ended = BootClock::now();
    {
        Lock lock(mutex_);
        Recent& recent = recent_.at(static_cast<std::size_t>(incident.kind));
        TimePoint now = Clock::now();
        if (now - recent.second >= std::chrono::seconds(1)) {
            recent.second = now;
            recent.told = 0;
        }
        if (recent.told >= kMostInSecond) {
            ++recent.left_out;
            return;
        }
        ++recent.told;
        incident.left_out = std::exchange(recent.left_out, 0);
    }
    events_.push(std::move(incident));
}

void Wait::tell(event::Incident::Kind kind, const Status& status, Duration waited) const {
    incidents_.note({.kind = kind,
                     .what = std::string(what_),
                     .about = std::string(about_),
                     .with = std::string(with_.empty() ? std::string_view(status.at()) : with_),
                     .status = status,
                     .waited = waited,
                     .deadline = deadline_});
}

}  // namespace holdfast
