#include "store/presence.hpp"

#include <algorithm>

namespace holdfast {

void Presence::set_self(std::uint64_t number) {
    self_ = number;
    if (PlacementPtr known = placement()) replace(std::make_shared<Placement>(*known));
}

void Presence::set_placement(Ring ring, std::vector<std::uint64_t> numbers,
                             std::vector<std::string> addresses, std::uint64_t identity,
                             std::vector<std::string> racks, std::optional<Ring> with_lost) {
    racks.resize(numbers.size());
    replace(std::make_shared<Placement>(Placement{std::move(ring), std::move(numbers),
                                                  std::move(addresses), identity, 0, Trees(racks),
                                                  std::move(with_lost)}));
}

void Presence::replace(std::shared_ptr<Placement> placement) {
    placement->self = self_;
    std::lock_guard lock(mutex_);
    placement_ = std::move(placement);
}

PlacementPtr Presence::placement() const {
    std::lock_guard lock(mutex_);
    return placement_;
}

std::uint64_t Presence::identity() const {
    std::lock_guard lock(mutex_);
    return placement_ ? placement_->identity : 0;
}

void Presence::set_news(std::string news) {
    std::lock_guard lock(mutex_);
    news_ = std::move(news);
}

Status Presence::is_wanted(std::uint64_t wanted) const {
    if (wanted == 0 || wanted == self_) return {};
    return Status(Code::Unavailable, "this address now belongs to another member");
}

Result<ProbeReply> Presence::answer(ProbeMessage message) {
    if (Status other = is_wanted(message.wanted); !other.ok()) return other;
    ++probes_;
    ProbeReply reply;
    {
        std::lock_guard lock(mutex_);
        reply.identity = placement_ ? placement_->identity : 0;
        reply.news = news_;
    }
    auto age =
        std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - last_beat_.load());
    reply.age_ms =
        static_cast<std::uint32_t>(std::clamp<std::int64_t>(age.count(), 0, ~std::uint32_t{0}));
    if (!message.news.empty() || message.identity != reply.identity)
        events_.push(event::Heard{message.identity, message.sender, std::move(message.news)});
    return reply;
}

}  // namespace holdfast
