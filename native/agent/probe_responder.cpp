#include "agent/probe_responder.hpp"

#include <algorithm>

namespace holdfast {

void ProbeResponder::set_news(std::string news) {
    std::lock_guard lock(mutex_);
    news_ = std::move(news);
}

Result<ProbeReply> ProbeResponder::answer(ProbeMessage message) {
    if (Status other = placement_.is_wanted(message.wanted); !other.ok()) return other;
    ++probes_;
    ProbeReply reply;
    reply.identity = placement_.identity();
    {
        std::lock_guard lock(mutex_);
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
