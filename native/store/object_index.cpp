#include "store/object_index.hpp"

#include <algorithm>
#include <limits>

#include "store/piece.hpp"

namespace holdfast {
namespace {

Status other_contents(const std::string& key) {
    return Status(Code::KeyExists,
                  "'" + key + "' has other contents; a key is written once, choose another");
}

}  // namespace

// ---- written once ----------------------------------------------------------------------------

Result<ObjectPtr> ObjectIndex::reserve(const std::string& key, std::uint64_t size) {
    if (Status status = writable(key); !status.ok()) return status;
    auto through = survey_.through().find(key);
    if (through != survey_.through().end() && through->second.held.size != size)
        return other_contents(key);
    if (Status status = no_overlap_being_written(key); !status.ok()) return status;
    auto [slot, added] = objects_.try_emplace(key);
    if (added) return ObjectPtr();
    const ObjectPtr& existing = slot->second;
    if (!existing)
        return Status(Code::Busy, "another request is writing '" + key + "' right now; try again");
    if (existing->size != size) return other_contents(key);
    return existing;
}

Status ObjectIndex::publish(ObjectPtr object) {
    const std::string& key = object->key;
    if (Status status = writable(key); !status.ok()) return status;
    auto through = survey_.through().find(key);
    if (through != survey_.through().end() && (through->second.held.size != object->size ||
                                               through->second.held.crc != object->full_crc()))
        return other_contents(key);
    forget_loss(key);
    survey_.added(object);
    objects_.at(key) = std::move(object);
    return {};
}

Status ObjectIndex::no_overlap_being_written(const std::string& key) const {
    if (!PieceKey::is_one(key) || objects_.contains(key)) return {};
    auto piece = PieceKey::parse(key);
    bool is_written = false;
    if (piece.ok())
        for_each_overlapping(*piece, objects_,
                             [&](auto& entry) { is_written |= entry.second == nullptr; });
    if (!is_written) return {};
    return Status(Code::Busy, "another request is writing a part of the box " +
                                  piece->cell.text(piece->box) + " of '" +
                                  std::string(piece->variable()) + "' right now; try again");
}

std::vector<ObjectPtr> ObjectIndex::overlapped(const std::string& key) const {
    std::vector<ObjectPtr> found;
    if (!PieceKey::is_one(key)) return found;
    auto piece = PieceKey::parse(key);
    if (piece.ok())
        for_each_overlapping(*piece, objects_, [&](auto& entry) {
            if (entry.second && entry.first != key && !hidden(entry.first))
                found.push_back(entry.second);
        });
    return found;
}

void ObjectIndex::abandon(const std::string& key) {
    objects_.erase(key);
}

ObjectPtr ObjectIndex::raise_copies(const ObjectPtr& object, std::uint16_t copies,
                                    std::uint16_t least) {
    if (!is_here(object)) return nullptr;
    if (object->has_source) least = 0;
    if (copies <= object->copies && least <= object->least) return object;
    auto raised = std::make_shared<Object>(*object);
    raised->copies = std::max(copies, object->copies);
    raised->least = std::max(least, object->least);
    survey_.removed(object);
    survey_.added(raised);
    objects_.at(object->key) = raised;
    return raised;
}

// ---- looking ---------------------------------------------------------------------------------

ObjectPtr ObjectIndex::find(const std::string& key) const {
    auto slot = objects_.find(key);
    if (slot == objects_.end() || !slot->second) return nullptr;
    // No watermark is over what has a source, which may still have to be evicted.
    return !slot->second->has_source && hidden(key) ? nullptr : slot->second;
}

bool ObjectIndex::is_being_written(const std::string& key) const {
    auto slot = objects_.find(key);
    return slot != objects_.end() && !slot->second;
}

ObjectPtr ObjectIndex::find_exactly(const std::string& key, std::uint64_t size,
                                    std::uint32_t crc) const {
    ObjectPtr object = find(key);
    return object && object->size == size && object->full_crc() == crc ? object : nullptr;
}

Status ObjectIndex::absent(const std::string& key) const {
    if (dropped(key)) return Status(Code::Dropped, "'" + key + "' was dropped");
    if (lost_.contains(key))
        return Status(Code::Damaged,
                      "the copy of '" + key + "' on this node was damaged and has been dropped");
    return Status(Code::NotFound, "'" + key + "' is not on this node");
}

bool ObjectIndex::dropped(const std::string& key) const {
    return notices_.contains(Topic::Tombstone, key) || watermarks_.over(key);
}

Status ObjectIndex::writable(const std::string& key) const {
    if (const Watermark* mark = watermarks_.over(key))
        return Status(Code::KeyExists, "all versions of '" + mark->prefix + "' below " +
                                           std::to_string(mark->version) + " were dropped, so '" +
                                           key + "' cannot be written; choose a later version");
    if (!notices_.contains(Topic::Tombstone, key)) return {};
    return Status(Code::KeyExists,
                  "'" + key + "' was dropped; a key is written once, choose another");
}

std::vector<ObjectPtr> ObjectIndex::list(const std::string& prefix, const std::string& after,
                                         std::size_t most) const {
    Listing listing{prefix, after, most};
    list(listing, std::numeric_limits<std::size_t>::max());
    return std::move(listing.found);
}

std::vector<std::string> ObjectIndex::lost(const std::string& prefix) const {
    std::vector<std::string> found;
    for (auto key = lost_.lower_bound(prefix); key != lost_.end() && key->starts_with(prefix);
         ++key)
        if (!dropped(*key)) found.push_back(*key);
    return found;
}

bool ObjectIndex::list(Listing& listing, std::size_t looks) const {
    auto& [prefix, reached, most, found] = listing;
    auto slot = reached < prefix ? objects_.lower_bound(prefix) : objects_.upper_bound(reached);
    for (; looks > 0; ++slot, --looks) {
        if (slot == objects_.end() || !slot->first.starts_with(prefix) || found.size() == most)
            return true;
        reached = slot->first;
        if (slot->second && !hidden(reached)) found.push_back(slot->second);
    }
    return false;
}

// ---- leaving ---------------------------------------------------------------------------------

void ObjectIndex::unlink(const ObjectPtr& object) {
    survey_.removed(object);
    survey_.forget_all_through(object->key);
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

ObjectIndex::Trimmed ObjectIndex::trim(const std::string& key, std::uint64_t size,
                                       std::uint32_t crc) {
    auto held = this->held(key);
    bool exactly = held && held->size == size && held->crc == crc;
    // The placement of this moment decides, not the one under which it became a stray.
    if (!exactly || survey_.self() == 0 || survey_.owners(*held).contains(survey_.self()))
        return {};
    ObjectPtr object = find(key);
    if (object) {
        unlink(object);
    } else {
        survey_.forget_through(key);
    }
    return {true, object};
}

ObjectIndex::Moved ObjectIndex::move_aside(const std::string& key, std::uint64_t size,
                                           std::uint32_t crc, const std::string& aside) {
    if (!find(key)) forget_held(key);
    ObjectPtr object = find_exactly(key, size, crc);
    if (!object) return {};
    auto there = objects_.find(aside);
    bool is_there = there != objects_.end();
    if (is_there && !there->second) return {};
    unlink(object);
    if (is_there && !object->has_source) raise_copies(there->second, object->copies, object->least);
    if (object->has_source || is_there || dropped(aside)) return {object, nullptr};
    auto moved = std::make_shared<Object>(*object);
    moved->key = aside;
    forget_loss(aside);
    survey_.added(moved);
    objects_[aside] = moved;
    return {object, moved};
}

// ---- rule 9 ----------------------------------------------------------------------------------

bool ObjectIndex::learn(const Notice& notice) {
    if (notice.topic == Topic::Tombstone) {
        if (watermarks_.over(notice.text)) return false;
        remove(notice.text);
    } else if (notice.topic == Topic::Watermark) {
        auto mark = Watermark::decode(notice.text);
        if (!mark || watermarks_.cover(*mark)) return false;
        for (auto& covered : watermarks_.raise(*mark))
            notices_.forget({Topic::Watermark, covered.encode()});
        auto waiting = std::ranges::find_if(sweeps_, [&](const Sweep& sweep) {
            return sweep.part == Sweep::Part::Begin && sweep.mark.prefix == mark->prefix;
        });
        if (waiting == sweeps_.end()) waiting = sweeps_.emplace(waiting);
        waiting->mark = *std::move(mark);
    }
    return notices_.add(notice);
}

bool ObjectIndex::sweep(std::size_t most) {
    if (!sweeping()) return true;
    Sweep& sweep = sweeps_.front();
    switch (sweep.part) {
        case Sweep::Part::Begin:
            sweep.reached = sweep.mark.prefix;
            sweep.part = Sweep::Part::Objects;
            [[fallthrough]];
        case Sweep::Part::Objects:
            if (!sweep_objects(sweep, most)) break;
            sweep.reached = sweep.mark.prefix;
            sweep.part = Sweep::Part::Losses;
            break;
        case Sweep::Part::Losses:
            if (sweep_losses(sweep, most)) sweep.part = Sweep::Part::Notices;
            break;
        case Sweep::Part::Notices:
            if (sweep_notices(sweep)) sweeps_.pop_front();
    }
    return !sweeping();
}

bool ObjectIndex::sweep_objects(Sweep& sweep, std::size_t most) {
    std::vector<std::string> covered;
    Walk walk(*this, sweep.reached);
    auto more = [&] { return !walk.done() && walk.key().starts_with(sweep.mark.prefix); };
    for (; more() && most > 0; walk.next(), --most) {
        sweep.reached = walk.key();
        if (sweep.mark.covers(sweep.reached)) covered.push_back(sweep.reached);
    }
    bool through = !more();
    for (auto& key : covered) remove(key);
    return through;
}

bool ObjectIndex::sweep_losses(Sweep& sweep, std::size_t most) {
    auto lost = lost_.upper_bound(sweep.reached);
    for (; most > 0; --most) {
        if (lost == lost_.end() || !lost->starts_with(sweep.mark.prefix)) return true;
        sweep.reached = *lost++;
        if (sweep.mark.covers(sweep.reached)) forget_loss(sweep.reached);
    }
    return false;
}

// Tombstones say no more than the watermark.
bool ObjectIndex::sweep_notices(Sweep& sweep) {
    for (auto& encoded : notices_.in({sweep.bucket})) {
        auto notice = Notice::decode(encoded);
        if (notice->topic == Topic::Tombstone && sweep.mark.covers(notice->text)) forget(*notice);
    }
    return ++sweep.bucket == Notices::kBuckets;
}

void ObjectIndex::remove(const std::string& key) {
    forget_loss(key);
    forget_held(key);
    auto slot = objects_.find(key);
    if (slot == objects_.end() || !slot->second) return;
    ObjectPtr object = slot->second;
    unlink(object);
    gone_.push_back(object);
}

void ObjectIndex::forget_held(const std::string& key) {
    survey_.forget_ghost(key);
    survey_.forget_through(key);
}

// ---- rule 8 ----------------------------------------------------------------------------------

void ObjectIndex::place(PlacementPtr placement, std::uint64_t self) {
    survey_.restart(std::move(placement), self);
}

bool ObjectIndex::count(std::size_t most) {
    if (survey_.complete()) return true;
    Walk walk(*this, survey_.reached());
    for (; !walk.done() && most > 0; walk.next(), --most) survey_.count(walk.key(), walk.object());
    if (walk.done()) survey_.finish();
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
    for (; stray != survey_.strays().end() && most > 0; ++stray, --most)
        if (auto held = this->held(*stray)) found.push_back(*std::move(held));
    return found;
}

bool ObjectIndex::fill(HeldList& list, std::size_t most) const {
    if (!list.in_ghosts_) {
        Walk walk(*this, list.reached_);
        for (; !walk.done() && most > 0; walk.next(), --most) {
            list.reached_ = walk.key();
            auto held = walk.held();
            if (held && !hidden(held->key)) list.add(*std::move(held), survey_);
        }
        if (!walk.done()) return false;
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
    if (hidden(key)) return std::nullopt;
    if (ObjectPtr object = find(key)) return Held::of(*object);
    auto ghost = survey_.ghosts().find(key);
    if (ghost != survey_.ghosts().end()) return ghost->second;
    auto through = survey_.through().find(key);
    if (through != survey_.through().end()) return through->second.held;
    return std::nullopt;
}

bool ObjectIndex::hold_through(const Held& held, const std::string& object) {
    if (!find(object) || objects_.contains(held.key) || dropped(held.key)) return false;
    survey_.hold_through(held, object);
    return true;
}

void ObjectIndex::raise_through(const Held& held, std::uint16_t copies, std::uint16_t least) {
    auto found = survey_.through().find(held.key);
    if (found == survey_.through().end()) return;
    auto [known, object] = found->second;
    if (known.size != held.size || known.crc != held.crc) return;
    if (known.copies >= copies && known.least >= least) return;
    known.copies = std::max(known.copies, copies);
    known.least = std::max(known.least, least);
    survey_.hold_through(known, object);
}

std::optional<Held> ObjectIndex::Walk::held() const {
    if (ObjectPtr stored = object()) return Held::of(*stored);
    return at_held() ? std::optional(held_->second.held) : std::nullopt;
}

void ObjectIndex::Walk::next() {
    bool object = at_object(), held = at_held();
    if (object) ++object_;
    if (held) ++held_;
}

void ObjectIndex::let_go(const Held& held) {
    if (!objects_.contains(held.key) && !dropped(held.key)) survey_.let_go(held);
}

}  // namespace holdfast
