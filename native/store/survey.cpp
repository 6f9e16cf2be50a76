#include "store/survey.hpp"

#include "base/hash.hpp"
#include "rpc/wire.hpp"

namespace holdfast {

std::size_t Survey::bucket_of(const std::string& key) {
    return xxh3_64(key) >> 58;
}

std::uint64_t Survey::digest_of(const Held& held) {
    MetaWriter what;
    what.number(held.size).number(held.crc);
    // Owners must agree also while they are the same for either number. Not so of what may have
    // been evicted: nobody could take over another number for it.
    if (!held.has_source) what.number(held.copies).number(held.least);
    return xxh3_64(held.key + what.take());
}

void Survey::restart(PlacementPtr placement, std::uint64_t self) {
    bool same = placement && placement_ && self == self_ && placement->same_owners(*placement_);
    placement_ = std::move(placement);
    self_ = self;
    if (same) return;
    begun_ = false;
    reached_.clear();
    complete_ = this->self() == 0;
    shared_.clear();
    strays_.clear();
    ghosts_.clear();
    short_of_nodes_ = 0;
}

void Survey::count(const std::string& key, const ObjectPtr& object) {
    begun_ = true;
    reached_ = key;
    if (object) {
        change(Held::of(*object), true);
    } else if (auto found = through_.find(key); found != through_.end()) {
        change(found->second.held, true);
    }
}

bool Survey::counted(const std::string& key) const {
    return self() != 0 && (complete_ || (begun_ && key <= reached_));
}

void Survey::added(const ObjectPtr& object) {
    forget_ghost(object->key);
    forget_through(object->key);
    if (counted(object->key)) change(Held::of(*object), true);
}

void Survey::removed(const ObjectPtr& object) {
    if (counted(object->key)) change(Held::of(*object), false);
}

void Survey::let_go(const Held& held) {
    if (!counted(held.key) || through_.contains(held.key)) return;
    Owners all = owners(held);
    if (!held.has_source || held.copies < 2 || !all.contains(self())) return;
    if (ghosts_.emplace(held.key, held).second) share(held, all, true);
}

void Survey::forget_ghost(const std::string& key) {
    auto ghost = ghosts_.find(key);
    if (ghost == ghosts_.end()) return;
    share(ghost->second, owners(ghost->second), false);
    ghosts_.erase(ghost);
}

void Survey::hold_through(const Held& held, const std::string& object) {
    forget_ghost(held.key);
    forget_through(held.key);
    through_[held.key] = {held, object};
    carried_[object].insert(held.key);
    if (counted(held.key)) change(held, true);
}

void Survey::forget_through(const std::string& key) {
    auto found = through_.find(key);
    if (found == through_.end()) return;
    auto carried = carried_.find(found->second.object);
    carried->second.erase(key);
    if (carried->second.empty()) carried_.erase(carried);
    if (counted(key)) change(found->second.held, false);
    through_.erase(found);
}

void Survey::forget_all_through(const std::string& object) {
    auto carried = carried_.find(object);
    if (carried == carried_.end()) return;
    for (auto& key : std::set<std::string>(carried->second)) forget_through(key);
}

Owners Survey::owners(const Held& held) const {
    return placement_ ? placement_->owners(held.key, held.copies) : Owners();
}

void Survey::change(const Held& held, bool add) {
    if (!held.is_owned()) return;
    Owners all = owners(held);
    if (!all.contains(self())) {
        if (add)
            strays_.insert(held.key);
        else
            strays_.erase(held.key);
        return;
    }
    if (all.count < held.least && *all.begin() == self())
        short_of_nodes_ += add ? 1 : std::uint64_t(-1);
    share(held, all, add);
}

void Survey::share(const Held& held, const Owners& owners, bool add) {
    std::uint64_t digest = digest_of(held);
    std::size_t bucket = bucket_of(held.key);
    for (std::uint64_t other : owners) {
        if (other == self()) continue;
        auto entry = shared_.try_emplace(other).first;
        auto& [count, together, buckets] = entry->second;
        count += add ? 1 : std::uint64_t(-1);
        together ^= digest;
        buckets[bucket] ^= digest;
        if (count == 0) shared_.erase(entry);
    }
}

}  // namespace holdfast
