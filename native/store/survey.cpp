#include "store/survey.hpp"

#include "base/hash.hpp"
#include "rpc/wire.hpp"

namespace holdfast {

std::size_t Survey::bucket_of(const std::string& key) {
    return xxh3_64(key) >> 58;
}

std::uint64_t Survey::digest_of(const Object& object) {
    return xxh3_64(object.key + MetaWriter().number(object.size).number(object.crc).take());
}

void Survey::restart(PlacementPtr placement) {
    bool same = placement && placement_ && placement->same_owners(*placement_);
    placement_ = std::move(placement);
    if (same) return;
    begun_ = false;
    complete_ = self() == 0;
    shared_.clear();
    strays_.clear();
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
    if (counted(object->key)) change(object, true);
}

void Survey::removed(const ObjectPtr& object) {
    if (counted(object->key)) change(object, false);
}

Owners Survey::owners(const Object& object) const {
    return placement_ ? placement_->owners(object.key, object.copies) : Owners();
}

void Survey::change(const ObjectPtr& object, bool add) {
    if (object->has_source) return;
    Owners all = owners(*object);
    if (!all.contains(self())) {
        if (add)
            strays_[object->key] = object;
        else
            strays_.erase(object->key);
        return;
    }
    if (all.count < object->copies && *all.begin() == self())
        short_of_nodes_ += add ? 1 : std::uint64_t(-1);
    std::uint64_t digest = digest_of(*object);
    std::size_t bucket = bucket_of(object->key);
    for (std::uint64_t other : all) {
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
