#include "files/owner_walk.hpp"

#include <algorithm>

namespace holdfast {

OwnerWalk::OwnerWalk(PlacementPtr placement, std::string_view key, OnFailure policy)
    : placement_(std::move(placement)), policy_(policy) {
    const Ring& live = placement_->ring;
    if (policy_ == OnFailure::Recache || !placement_->with_lost) {
        auto wanted = std::span(owners_).first(policy_ == OnFailure::Recache ? kMostAsked : 1);
        count_ = live.owners(key, wanted);
        return;
    }
    const Ring& all = *placement_->with_lost;
    std::array<std::uint32_t, 1> first;
    if (all.owners(key, first) == 0) return;
    const std::string& name = all.nodes()[first[0]];
    auto found = std::ranges::lower_bound(live.nodes(), name);
    if (found == live.nodes().end() || *found != name) {
        failed_ = name;
        return;
    }
    owners_[count_++] = static_cast<std::uint32_t>(found - live.nodes().begin());
}

std::optional<std::uint32_t> OwnerWalk::next(const Trust& trust, TimePoint now) {
    for (; at_ < count_; failed())
        if (trust.trusts(placement_->numbers[owners_[at_]], now)) return owners_[at_];
    return std::nullopt;
}

void OwnerWalk::failed() {
    if (at_ >= count_) return;
    failed_ = placement_->ring.nodes()[owners_[at_]];
    at_ = policy_ == OnFailure::Recache ? at_ + 1 : count_;
}

std::string OwnerWalk::reason() const {
    return failed_ +
           " owns the file and failed; with on_failure='abort' no other node takes over: use "
           "'redirect' or 'recache' to go on";
}

}  // namespace holdfast
