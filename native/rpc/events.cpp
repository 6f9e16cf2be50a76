#include "rpc/events.hpp"

#include <sys/eventfd.h>

namespace holdfast {
namespace {

constexpr std::size_t kMostHeard = 256;

}  // namespace

Events::Events() : ready_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

void Events::push(Event event) {
    Lock lock(mutex_);
    if (std::holds_alternative<event::Heard>(event)) {
        if (heard_ >= kMostHeard) return;
        ++heard_;
    }
    auto* answer = std::get_if<event::Answered>(&event);
    bool wakes = !answer || !answer->expected;
    queue_.push_back(std::move(event));
    if (wakes && !woken_) {
        ::eventfd_write(ready_.get(), 1);
        woken_ = true;
    }
}

std::optional<Event> Events::next() {
    Lock lock(mutex_);
    if (queue_.empty()) return std::nullopt;
    Event event = std::move(queue_.front());
    queue_.pop_front();
    if (std::holds_alternative<event::Heard>(event)) --heard_;
    if (queue_.empty() && woken_) {
        eventfd_t ignored;
        ::eventfd_read(ready_.get(), &ignored);
        woken_ = false;
    }
    return event;
}

}  // namespace holdfast
