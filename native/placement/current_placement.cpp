#include "placement/current_placement.hpp"

#include <algorithm>

namespace holdfast {

void CurrentPlacement::set(PlacementPtr placement) {
    Lock lock(mutex_);
    placement_ = std::move(placement);
}

PlacementPtr CurrentPlacement::get() const {
    Lock lock(mutex_);
    return placement_;
}

std::uint64_t CurrentPlacement::identity() const {
    Lock lock(mutex_);
    return placement_ ? placement_->identity : 0;
}

void CurrentPlacement::set_suspects(std::vector<std::uint64_t> suspects) {
    Lock lock(mutex_);
    suspects_ = std::move(suspects);
}

bool CurrentPlacement::suspects(std::uint64_t number) const {
    Lock lock(mutex_);
    return std::ranges::find(suspects_, number) != suspects_.end();
}

Status CurrentPlacement::is_wanted(std::uint64_t wanted) const {
    if (wanted == 0 || wanted == self_) return {};
    return Status(Code::Unavailable, "this address now belongs to another member");
}

}  // namespace holdfast
