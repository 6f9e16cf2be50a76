#include "rpc/events.hpp"

#include <sys/eventfd.h>

namespace holdfast {
namespace {

constexpr std::size_t kMostHeard = 256;

}  // namespace

Events::Events() : ready_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

void Events::push(Event event) {
    std::lock_guard lock(mutex_);
    if (std::holds_alternative<event::Heard>(event)) {
        if (heard_ >= kMostHeard) return;
        ++heard_;
    }
    queue_.push_back(std::move(event));
    if (queue_.size() == 1) ::eventfd_write(ready_.get(), 1);
}

std::optional<Event> Events::next() {
    std::lock_guard lock(mutex_);
    if (queue_.empty()) return std::nullopt;
    Event event = std::move(queue_.front());
    queue_.pop_front();
    if (std::holds_alternative<event::Heard>(event)) --heard_;
    if (queue_.empty()) {
        eventfd_t ignored;
        ::eventfd_read(ready_.get(), &ignored);
    }
    return event;
}

}  // namespace holdfast
