#include "agent/probe_responder.hpp"

#include <algorithm>

#include "agent/lanes.hpp"
#include "rpc/body.hpp"

namespace holdfast {

void ProbeResponder::add_to(Handlers& handlers) {
    handlers.add(Op::Probe, [this](Request& request) { return handle(request); });
}

Outcome ProbeResponder::handle(const Request& request) {
    auto message = ProbeMessage::decode(request.meta);
    if (!message.ok()) return Answer(message.take_status());
    Answer answer;
    if (message->target.empty()) {
        auto reply = reply_to(std::move(*message));
        if (!reply.ok()) return Answer(reply.take_status());
        answer.meta = reply->encode();
        return answer;
    }
    return Blocking{lane::kRelay, [this, message = std::move(*message)](Body& body) -> Answer {
                        ProbeMessage direct = message;
                        direct.target.clear();
                        // The member that asked must hear our answer before its own deadline ends.
                        auto exchange = peers_.ask(
                            message.target,
                            {.op = Op::Probe, .meta = direct.encode(), .to_the_dead = true},
                            body.deadline() * 3 / 4);
                        if (!exchange.ok()) return exchange.take_status();
                        Answer relayed;
                        relayed.meta = exchange->meta();
                        return relayed;
                    }};
}

void ProbeResponder::beat() {
    auto now = Clock::now();
    pause_ = now - last_beat_.exchange(now);
}

Duration ProbeResponder::overdue() const {
    return std::max(Clock::now() - last_beat_.load() - pause_.load(), Duration());
}

void ProbeResponder::set_news(std::string news) {
    Lock lock(mutex_);
    news_ = std::move(news);
}

Result<ProbeReply> ProbeResponder::reply_to(ProbeMessage message) {
    if (Status other = placement_.is_wanted(message.expected_member); !other.ok()) return other;
    ++probes_;
    ProbeReply reply;
    reply.identity = placement_.identity();
    {
        Lock lock(mutex_);
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
