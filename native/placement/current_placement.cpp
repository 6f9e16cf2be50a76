#include "placement/current_placement.hpp"

namespace holdfast {

void CurrentPlacement::set_self(std::uint64_t number) {
    self_ = number;
    if (PlacementPtr known = get()) replace(std::make_shared<Placement>(*known));
}

void CurrentPlacement::set(Ring ring, std::vector<std::uint64_t> numbers,
                           std::vector<std::string> addresses, std::uint64_t identity,
                           std::vector<std::string> racks, std::optional<Ring> with_lost) {
    racks.resize(numbers.size());
    replace(std::make_shared<Placement>(Placement{std::move(ring), std::move(numbers),
                                                  std::move(addresses), identity, 0, Trees(racks),
                                                  std::move(with_lost)}));
}

void CurrentPlacement::replace(std::shared_ptr<Placement> placement) {
    placement->self = self_;
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
