#include "agent/requests.hpp"

#include <sys/resource.h>

namespace holdfast {
namespace {

constexpr std::size_t kMostPending = 1024;  // in one lane
// A Python loop that went round so lately is no news, in milliseconds.
constexpr std::uint32_t kFreshLoop = 1000;

// Restoring leaves the processors to whoever reads or writes meanwhile. On Linux this is the
// priority of the thread, and the threads of that lane do nothing else.
void give_way() {
    ::setpriority(PRIO_PROCESS, 0, 10);
}

}  // namespace

// A request on its way. One that the pool drops, because it stops or can start no thread, ends too.
class Requests::Pending {
  public:
    Pending(Events& events, std::atomic<std::size_t>& count, std::uint64_t ticket)
        : events_(events), count_(count), ticket_(ticket), admitted_(++count <= kMostPending) {}
    ~Pending() {
        if (!ended_) end(Status(Code::Unavailable, "the agent is stopping"));
        --count_;
    }
    bool admitted() const { return admitted_; }
    void end(Result<Event> result) {
        ended_ = true;
        events_.push(result.ok() ? std::move(*result)
                                 : Event(event::Failed{ticket_, result.take_status()}));
    }

  private:
    Events& events_;
    std::atomic<std::size_t>& count_;
    const std::uint64_t ticket_;
    const bool admitted_;
    bool ended_ = false;
};

template <typename Work>
void Requests::start(std::size_t lane, std::uint64_t ticket, Work work) {
    auto pending = std::make_shared<Pending>(events_, pending_.at(lane), ticket);
    if (!pending->admitted())
        return pending->end(Status(Code::Busy, "too many requests are waiting; try again"));
    pool_.run(lane, [pending, work = std::move(work)] { pending->end(work()); });
}

void Requests::probe(std::uint64_t ticket, const std::string& address, const std::string& via,
                     std::string news, std::uint64_t member, Duration deadline) {
    ProbeMessage message{placement_.self(), member, placement_.identity(), {}, std::move(news)};
    if (!via.empty()) message.target = address;
    start(lane::kProbe, ticket,
          [this, ticket, deadline, to = via.empty() ? address : via,
           meta = message.encode()]() -> Result<Event> {
              auto exchange =
                  peers_.ask(to, {.op = Op::Probe, .meta = meta, .to_the_dead = true}, deadline);
              if (!exchange.ok()) return exchange.take_status();
              auto reply = ProbeReply::decode(exchange->meta());
              if (!reply.ok()) return reply.take_status();
              bool expected = reply->news.empty() && reply->age_ms < kFreshLoop &&
                              reply->identity == placement_.identity();
              return Event(event::Answered{ticket, reply->age_ms, reply->identity,
                                           std::move(reply->news), expected});
          });
}

void Requests::ask(std::uint64_t ticket, std::string address, const CallMessage& message,
                   std::string body, Duration deadline) {
    start(lane::kAsk, ticket,
          [this, ticket, deadline, address = std::move(address), meta = message.encode(),
           service = message.service, body = std::move(body)]() -> Result<Event> {
              Wait wait(incidents_, "ask", service, address, deadline);
              auto text = peers_.ask_text(
                  address, {.op = Op::Call, .meta = meta, .body = body, .to_the_dead = true},
                  deadline);
              wait.ended(text);
              if (!text.ok()) return text.take_status();
              return Event(event::Reply{ticket, std::move(*text)});
          });
}

void Requests::pull(std::uint64_t ticket, Pull wanted, Duration deadline) {
    start(lane::kPull, ticket,
          [this, ticket, deadline, wanted = std::move(wanted)]() -> Result<Event> {
              give_way();
              auto object = operations_.pull_here(wanted, deadline);
              if (!object.ok()) return object.take_status();
              return Event(event::Pulled{ticket, (*object)->size});
          });
}

}  // namespace holdfast
