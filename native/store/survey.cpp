#include "store/survey.hpp"

#include "base/hash.hpp"
#include "rpc/wire.hpp"

namespace holdfast {

std::size_t Survey::bucket_of(const std::string& key) {
    return xxh3_64(key) >> 58;
}

std::uint64_t Survey::digest_of(const Held& held) {
    return xxh3_64(held.key + MetaWriter().number(held.size).number(held.crc).take());
}

void Survey::restart(PlacementPtr placement, std::uint64_t self) {
    bool same = placement && placement_ && self == self_ && placement->same_owners(*placement_);
    placement_ = std::move(placement);
    self_ = self;
    if (same) return;
    begun_ = false;
    complete_ = this->self() == 0;
    shared_.clear();
    strays_.clear();
    ghosts_.clear();
    short_of_nodes_ = 0;
}

void Survey::count(const std::string& key, const ObjectPtr& object) {
    begun_ = true;
    reached_ = key;
    if (object) change(object, true);
}

bool Survey::counted(const std::string& key) const {
    return self() != 0 && (complete_ || (begun_ && key <= reached_));
}

void Survey::added(const ObjectPtr& object) {
    forget_ghost(object->key);
    if (counted(object->key)) change(object, true);
}

void Survey::removed(const ObjectPtr& object) {
    if (counted(object->key)) change(object, false);
}

void Survey::let_go(const Held& held) {
    if (!counted(held.key)) return;
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

Owners Survey::owners(const Held& held) const {
    return placement_ ? placement_->owners(held.key, held.copies) : Owners();
}

void Survey::change(const ObjectPtr& object, bool add) {
    if (object->copies == 0) return;
    Held held = Held::of(*object);
    Owners all = owners(held);
    if (!all.contains(self())) {
        if (add)
            strays_[object->key] = object;
        else
            strays_.erase(object->key);
        return;
    }
    // A file that lacks a copy can still be had; it is not at risk.
    if (all.count < held.copies && *all.begin() == self() && !held.has_source)
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
