#include "placement/current_placement.hpp"

namespace holdfast {

void CurrentPlacement::set(PlacementPtr placement) {
    std::lock_guard lock(mutex_);
    placement_ = std::move(placement);
}

PlacementPtr CurrentPlacement::get() const {
    std::lock_guard lock(mutex_);
    return placement_;
}

std::uint64_t CurrentPlacement::identity() const {
    std::lock_guard lock(mutex_);
    return placement_ ? placement_->identity : 0;
}

Status CurrentPlacement::is_wanted(std::uint64_t wanted) const {
    if (wanted == 0 || wanted == self_) return {};
    return Status(Code::Unavailable, "this address now belongs to another member");
}

}  // namespace holdfast
