#include "store/object_index.hpp"

namespace holdfast {

// ---- written once ----------------------------------------------------------------------------

Result<ObjectPtr> ObjectIndex::reserve(const std::string& key, std::uint64_t size) {
    if (dropped_.contains(key)) return was_dropped(key);
    auto [slot, added] = objects_.try_emplace(key);
    if (added) return ObjectPtr();
    const ObjectPtr& existing = slot->second;
    if (!existing)
        return Status(Code::Busy, "another request is writing '" + key + "' right now; try again");
    if (existing->size != size)
        return Status(Code::KeyExists,
                      "'" + key + "' has other contents; a key is written once, choose another");
    return existing;
}

Status ObjectIndex::publish(ObjectPtr object) {
    const std::string& key = object->key;
    if (dropped_.contains(key)) return was_dropped(key);
    forget_loss(key);
    survey_.added(object);
    objects_.at(key) = std::move(object);
    return {};
}

void ObjectIndex::abandon(const std::string& key) {
    objects_.erase(key);
}

ObjectPtr ObjectIndex::raise_copies(const ObjectPtr& object, std::uint16_t copies) {
    if (!is_here(object)) return nullptr;
    if (copies <= object->copies) return object;
    auto raised = std::make_shared<Object>(*object);
    raised->copies = copies;
    survey_.removed(object);
    survey_.added(raised);
    objects_.at(object->key) = raised;
    return raised;
}

// ---- looking ---------------------------------------------------------------------------------

ObjectPtr ObjectIndex::find(const std::string& key) const {
    auto slot = objects_.find(key);
    return slot == objects_.end() ? nullptr : slot->second;
}

ObjectPtr ObjectIndex::find_exactly(const std::string& key, std::uint64_t size,
                                    std::uint32_t crc) const {
    ObjectPtr object = find(key);
    return object && object->size == size && object->crc == crc ? object : nullptr;
}

Status ObjectIndex::absent(const std::string& key) const {
    if (dropped_.contains(key)) return Status(Code::Dropped, "'" + key + "' was dropped");
    if (lost_.contains(key))
        return Status(Code::Damaged,
                      "the copy of '" + key + "' on this node was damaged and has been dropped");
    return Status(Code::NotFound, "'" + key + "' is not on this node");
}

Status ObjectIndex::was_dropped(const std::string& key) {
    return Status(Code::KeyExists,
                  "'" + key + "' was dropped; a key is written once, choose another");
}

std::vector<ObjectPtr> ObjectIndex::list(const std::string& prefix, const std::string& after,
                                         std::size_t most) const {
    std::vector<ObjectPtr> found;
    auto slot = after < prefix ? objects_.lower_bound(prefix) : objects_.upper_bound(after);
    for (; slot != objects_.end() && slot->first.starts_with(prefix) && found.size() < most; ++slot)
        if (slot->second) found.push_back(slot->second);
    return found;
}

// ---- leaving ---------------------------------------------------------------------------------

void ObjectIndex::unlink(const ObjectPtr& object) {
    survey_.removed(object);
    objects_.erase(object->key);
}

void ObjectIndex::forget_loss(const std::string& key) {
    if (lost_.erase(key) > 0) lost_bytes_ -= key.size() + kEntryBytes;
}

bool ObjectIndex::evict(const ObjectPtr& object) {
    if (!is_here(object)) return false;
    unlink(object);
    survey_.let_go(Held::of(*object));
    return true;
}

bool ObjectIndex::lose(const ObjectPtr& object) {
    if (!is_here(object)) return false;
    unlink(object);
    if (!object->has_source && lost_.insert(object->key).second)
        lost_bytes_ += object->key.size() + kEntryBytes;
    return true;
}

ObjectPtr ObjectIndex::trim(const std::string& key, std::uint64_t size, std::uint32_t crc) {
    ObjectPtr object = find_exactly(key, size, crc);
    if (!object) return nullptr;
    // The placement of this moment decides, not the one under which it became a stray.
    if (survey_.self() == 0 || survey_.owners(Held::of(*object)).contains(survey_.self()))
        return nullptr;
    unlink(object);
    return object;
}

ObjectIndex::Moved ObjectIndex::move_aside(const std::string& key, std::uint64_t size,
                                           std::uint32_t crc, const std::string& aside) {
    if (!find(key)) survey_.forget_ghost(key);
    ObjectPtr object = find_exactly(key, size, crc);
    if (!object) return {};
    auto there = objects_.find(aside);
    bool is_there = there != objects_.end();
    if (is_there && !there->second) return {};
    unlink(object);
    if (is_there && !object->has_source) raise_copies(there->second, object->copies);
    if (object->has_source || is_there || dropped_.contains(aside)) return {object, nullptr};
    auto moved = std::make_shared<Object>(*object);
    moved->key = aside;
    forget_loss(aside);
    survey_.added(moved);
    objects_[aside] = moved;
    return {object, moved};
}

ObjectIndex::Burial ObjectIndex::bury(const std::string& key) {
    if (!dropped_.add(key)) return {};
    forget_loss(key);
    survey_.forget_ghost(key);
    ObjectPtr object = find(key);
    if (object) unlink(object);
    return {true, object};
}

// ---- rule 8 ----------------------------------------------------------------------------------

void ObjectIndex::place(PlacementPtr placement, std::uint64_t self) {
    survey_.restart(std::move(placement), self);
}

bool ObjectIndex::count(std::size_t most) {
    if (survey_.complete()) return true;
    const std::string* reached = survey_.reached();
    auto slot = reached ? objects_.upper_bound(*reached) : objects_.begin();
    for (; slot != objects_.end() && most > 0; ++slot, --most)
        survey_.count(slot->first, slot->second);
    if (slot == objects_.end()) survey_.finish();
    return survey_.complete();
}

std::map<std::uint64_t, std::pair<std::uint64_t, std::uint64_t>> ObjectIndex::survey() const {
    std::map<std::uint64_t, std::pair<std::uint64_t, std::uint64_t>> found;
    for (auto& [other, shared] : survey_.shared()) found[other] = {shared.count, shared.digest};
    return found;
}

std::array<std::uint64_t, Survey::kBuckets> ObjectIndex::buckets_with(std::uint64_t peer) const {
    auto entry = survey_.shared().find(peer);
    if (entry == survey_.shared().end()) return {};
    return entry->second.buckets;
}

std::vector<Held> ObjectIndex::strays(std::size_t most, const std::string& after) const {
    std::vector<Held> found;
    auto stray = survey_.strays().upper_bound(after);
    for (; stray != survey_.strays().end() && found.size() < most; ++stray)
        found.push_back(Held::of(*stray->second));
    return found;
}

bool ObjectIndex::fill(HeldList& list, std::size_t most) const {
    if (!list.in_ghosts_) {
        auto slot = objects_.upper_bound(list.reached_);
        for (; slot != objects_.end() && most > 0; ++slot, --most) {
            list.reached_ = slot->first;
            if (slot->second) list.add(Held::of(*slot->second), survey_);
        }
        if (slot != objects_.end()) return false;
        list.in_ghosts_ = true;
        list.reached_.clear();
    }
    auto ghost = survey_.ghosts().upper_bound(list.reached_);
    for (; ghost != survey_.ghosts().end() && most > 0; ++ghost, --most) {
        list.reached_ = ghost->first;
        list.add(ghost->second, survey_);
    }
    return ghost == survey_.ghosts().end();
}

std::optional<Held> ObjectIndex::held(const std::string& key) const {
    if (ObjectPtr object = find(key)) return Held::of(*object);
    auto ghost = survey_.ghosts().find(key);
    if (ghost != survey_.ghosts().end()) return ghost->second;
    return std::nullopt;
}

void ObjectIndex::let_go(const Held& held) {
    if (!objects_.contains(held.key) && !dropped_.contains(held.key)) survey_.let_go(held);
}

}  // namespace holdfast
