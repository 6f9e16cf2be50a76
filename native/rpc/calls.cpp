#include "rpc/calls.hpp"

#include <sys/eventfd.h>

namespace holdfast {
namespace {

constexpr std::size_t kMostQueued = 1024;

}  // namespace

Calls::Calls() : ready_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

Result<std::string> Calls::ask(std::string service, std::string method, std::string message,
                               Duration deadline) {
    std::unique_lock lock(mutex_);
    if (closed_) return Status(Code::Unavailable, "the agent is stopping");
    if (queue_.size() >= kMostQueued)
        return Status(Code::Busy, "too many control calls are waiting; try again");
    std::uint64_t id = next_id_++;
    auto& slot = waiting_[id];
    queue_.push_back({id, std::move(service), std::move(method), std::move(message)});
    ::eventfd_write(ready_.get(), 1);
    bool in_time = answered_.wait_for(lock, deadline, [&] { return slot.has_value() || closed_; });
    Result<std::string> result =
        slot      ? std::move(*slot)
        : in_time ? Result<std::string>(Status(Code::Unavailable, "the agent is stopping"))
                  : Result<std::string>(Status(Code::DeadlineMissed,
                                               "the agent's Python side did not answer in time"));
    waiting_.erase(id);
    // Nobody waits for it any more: it must neither run later nor be kept.
    std::erase_if(queue_, [id](const Call& call) { return call.id == id; });
    return result;
}

void Calls::tell(std::string service, std::string method, std::string message) {
    std::lock_guard lock(mutex_);
    if (closed_) return;
    queue_.push_back({next_id_++, std::move(service), std::move(method), std::move(message)});
    ::eventfd_write(ready_.get(), 1);
}

std::optional<Calls::Call> Calls::next() {
    std::lock_guard lock(mutex_);
    if (queue_.empty()) {
        eventfd_t ignored;
        ::eventfd_read(ready_.get(), &ignored);
        return std::nullopt;
    }
    Call call = std::move(queue_.front());
    queue_.pop_front();
    return call;
}

void Calls::answer(std::uint64_t id, Result<std::string> result) {
    std::lock_guard lock(mutex_);
    auto slot = waiting_.find(id);
    if (slot == waiting_.end() || slot->second) return;  // given up, or answered
    slot->second.emplace(std::move(result));
    answered_.notify_all();
}

void Calls::close() {
    std::lock_guard lock(mutex_);
    closed_ = true;
    answered_.notify_all();
}

}  // namespace holdfast
