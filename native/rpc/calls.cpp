#include "rpc/calls.hpp"

#include <sys/eventfd.h>

#include <utility>

namespace holdfast {
namespace {

constexpr std::size_t kMostQueued = 1024;  // of those that threads wait for
constexpr std::size_t kMostParked = 64 << 10;
constexpr std::size_t kMostQueuedBytes = 64 << 20;  // before one more is parked

Status stopping() {
    return Status(Code::Unavailable, "the agent is stopping");
}

}  // namespace

Calls::Calls() : ready_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

std::uint64_t Calls::enqueue(std::string service, std::string method, std::string message,
                             std::optional<Duration> within) {
    std::uint64_t id = next_id_++;
    queued_bytes_ += message.size();
    queue_.emplace_hint(
        queue_.end(), id,
        Call{id, std::move(service), std::move(method), std::move(message), within});
    ::eventfd_write(ready_.get(), 1);
    return id;
}

void Calls::dequeue(std::map<std::uint64_t, Call>::iterator call) {
    queued_bytes_ -= call->second.message.size();
    queue_.erase(call);
}

Result<std::string> Calls::ask(std::string service, std::string method, std::string message,
                               Duration deadline) {
    Lock lock(mutex_);
    if (closed_) return stopping();
    if (waiting_.size() >= kMostQueued)
        return Status(Code::Busy, "too many control calls are waiting; try again");
    std::uint64_t id = enqueue(std::move(service), std::move(method), std::move(message));
    auto& slot = waiting_[id];
    bool in_time = answered_.wait_for(
        lock, deadline, [&]() REQUIRES(mutex_) { return slot.has_value() || closed_; });
    Result<std::string> result =
        slot      ? std::move(*slot)
        : in_time ? Result<std::string>(stopping())
                  : Result<std::string>(Status(Code::DeadlineMissed,
                                               "the agent's Python side did not answer in time"));
    waiting_.erase(id);
    // Nobody waits for it any more: it must neither run later nor be kept.
    if (auto untaken = queue_.find(id); untaken != queue_.end()) dequeue(untaken);
    return result;
}

void Calls::tell(std::string service, std::string method, std::string message) {
    Lock lock(mutex_);
    if (!closed_) enqueue(std::move(service), std::move(method), std::move(message));
}

Result<std::uint64_t> Calls::park(std::string service, std::string method, std::string message,
                                  Duration within, Reply reply) {
    Lock lock(mutex_);
    if (closed_) return stopping();
    if (parked_.size() >= kMostParked || queued_bytes_ > kMostQueuedBytes)
        return Status(Code::Busy, "too many calls wait at this agent; try again");
    std::uint64_t id = enqueue(std::move(service), std::move(method), std::move(message), within);
    parked_.emplace(id, std::move(reply));
    return id;
}

void Calls::cancel(std::uint64_t id) {
    Lock lock(mutex_);
    if (parked_.erase(id) == 0) return;  // answered meanwhile
    if (auto untaken = queue_.find(id); untaken != queue_.end()) return dequeue(untaken);
    cancelled_.push_back(id);
    ::eventfd_write(ready_.get(), 1);
}

std::optional<Calls::Call> Calls::next() {
    Lock lock(mutex_);
    if (queue_.empty()) {
        eventfd_t ignored;
        if (cancelled_.empty()) ::eventfd_read(ready_.get(), &ignored);
        return std::nullopt;
    }
    auto first = queue_.begin();
    queued_bytes_ -= first->second.message.size();
    Call call = std::move(first->second);
    queue_.erase(first);
    return call;
}

std::vector<std::uint64_t> Calls::take_cancelled() {
    Lock lock(mutex_);
    return std::exchange(cancelled_, {});
}

void Calls::answer(std::uint64_t id, Result<std::string> result) {
    Reply reply;
    {
        Lock lock(mutex_);
        if (auto parked = parked_.extract(id)) {
            reply = std::move(parked.mapped());
        } else {
            auto slot = waiting_.find(id);
            if (slot == waiting_.end() || slot->second) return;  // given up, or answered
            slot->second.emplace(std::move(result));
            answered_.notify_all();
            return;
        }
    }
    reply(std::move(result));
}

void Calls::close() {
    std::unordered_map<std::uint64_t, Reply> parked;
    {
        Lock lock(mutex_);
        closed_ = true;
        parked.swap(parked_);
        answered_.notify_all();
    }
    for (auto& [id, reply] : parked) reply(stopping());
}

}  // namespace holdfast
