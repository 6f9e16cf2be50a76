// What the store tells its co-owners (rule 8), and how it lets go of what it does not own.
#include <algorithm>
#include <thread>

#include "base/fault.hpp"
#include "store/store.hpp"

namespace holdfast {
namespace {

// Small enough that nobody who wants the lock for a moment waits long.
constexpr std::size_t kObjectsAtOnce = 256;
constexpr std::size_t kMostHeld = 16384;  // in one answer

}  // namespace

void Store::place(PlacementPtr placement) {
    std::lock_guard lock(mutex_);
    survey_.restart(std::move(placement));
}

void Store::finish_survey() {
    std::unique_lock lock(mutex_);
    while (!survey_.complete()) {
        const std::string* reached = survey_.reached();
        auto slot = reached ? index_.upper_bound(*reached) : index_.begin();
        for (std::size_t left = kObjectsAtOnce; slot != index_.end() && left > 0; ++slot, --left)
            survey_.count(slot->first, slot->second);
        if (slot == index_.end()) survey_.finish();
        lock.unlock();
        std::this_thread::yield();
        lock.lock();
    }
}

std::map<std::uint64_t, std::pair<std::uint64_t, std::uint64_t>> Store::survey() {
    finish_survey();
    std::lock_guard lock(mutex_);
    std::map<std::uint64_t, std::pair<std::uint64_t, std::uint64_t>> found;
    for (auto& [other, shared] : survey_.shared()) found[other] = {shared.count, shared.digest};
    return found;
}

std::uint64_t Store::short_of_nodes() {
    finish_survey();
    std::lock_guard lock(mutex_);
    return survey_.short_of_nodes();
}

std::array<std::uint64_t, Survey::kBuckets> Store::buckets_with(std::uint64_t peer) {
    finish_survey();
    std::lock_guard lock(mutex_);
    auto entry = survey_.shared().find(peer);
    if (entry == survey_.shared().end()) return {};
    return entry->second.buckets;
}

std::vector<Held> Store::held_with(std::uint64_t peer, const std::vector<std::uint32_t>& buckets) {
    std::array<bool, Survey::kBuckets> wanted{};
    for (auto bucket : buckets)
        if (bucket < Survey::kBuckets) wanted[bucket] = true;
    std::array<std::vector<Held>, Survey::kBuckets> found;
    auto list = [&](Held held) {
        std::size_t bucket = Survey::bucket_of(held.key);
        if (!wanted[bucket]) return;
        Owners owners = survey_.owners(held);
        if (owners.contains(survey_.self()) && owners.contains(peer))
            found[bucket].push_back(std::move(held));
    };
    std::string after;
    for (bool more = true; more;) {
        std::lock_guard lock(mutex_);
        auto slot = after.empty() ? index_.begin() : index_.upper_bound(after);
        for (std::size_t left = kObjectsAtOnce; slot != index_.end() && left > 0; ++slot, --left) {
            after = slot->first;
            const ObjectPtr& object = slot->second;
            if (object) list(Held::of(*object));
        }
        more = slot != index_.end();
    }
    after.clear();
    for (bool more = true; more;) {
        std::lock_guard lock(mutex_);
        auto ghost = survey_.ghosts().upper_bound(after);
        for (std::size_t left = kObjectsAtOnce; ghost != survey_.ghosts().end() && left > 0;
             ++ghost, --left) {
            after = ghost->first;
            list(ghost->second);
        }
        more = ghost != survey_.ghosts().end();
    }
    std::vector<Held> all;
    for (auto& bucket : found) {
        if (!all.empty() && all.size() + bucket.size() > kMostHeld) break;
        std::move(bucket.begin(), bucket.end(), std::back_inserter(all));
    }
    return all;
}

std::vector<Held> Store::strays(std::size_t most, const std::string& after) {
    finish_survey();
    std::vector<Held> found;
    std::lock_guard lock(mutex_);
    auto stray = survey_.strays().upper_bound(after);
    for (; stray != survey_.strays().end() && found.size() < most; ++stray)
        found.push_back(Held::of(*stray->second));
    return found;
}

std::optional<Held> Store::held(const std::string& key) {
    std::lock_guard lock(mutex_);
    auto slot = index_.find(key);
    if (slot != index_.end() && slot->second) return Held::of(*slot->second);
    auto ghost = survey_.ghosts().find(key);
    if (ghost != survey_.ghosts().end()) return ghost->second;
    return std::nullopt;
}

void Store::let_go(const Held& held) {
    std::lock_guard lock(mutex_);
    if (!index_.contains(held.key) && !dropped_.contains(held.key)) survey_.let_go(held);
}

void Store::missed(const std::string& key) {
    std::lock_guard lock(mutex_);
    survey_.forget_ghost(key);
}

bool Store::trim(const std::string& key, std::uint64_t size, std::uint32_t crc) {
    fault_point(Stage::Trim);
    ObjectPtr object;
    {
        std::lock_guard lock(mutex_);
        auto slot = index_.find(key);
        if (slot == index_.end() || !slot->second) return false;
        object = slot->second;
        if (object->size != size || object->crc != crc) return false;
        // The placement of this moment decides, not the one under which it became a stray.
        if (survey_.self() == 0 || survey_.owners(Held::of(*object)).contains(survey_.self()))
            return false;
        ++counters_.trimmed;
        unlink(slot);
    }
    remove_file(*object);
    return true;
}

// Readers keep what they found: neither its bytes nor its file are touched. Pins stay with the
// bytes.
bool Store::move_aside(const std::string& key, std::uint64_t size, std::uint32_t crc,
                       const std::string& aside) {
    ObjectPtr gone;
    {
        std::lock_guard lock(mutex_);
        auto slot = index_.find(key);
        if (slot == index_.end() || !slot->second) {
            survey_.forget_ghost(key);
            return false;
        }
        ObjectPtr object = slot->second;
        if (object->size != size || object->crc != crc) return false;
        auto there = index_.find(aside);
        if (there != index_.end() && !there->second) return false;
        if (object->has_source || there != index_.end() || dropped_.contains(aside)) {
            gone = object;
            unlink(slot);
        } else {
            auto moved = std::make_shared<Object>(*object);
            moved->key = aside;
            auto& state = tier(object->tier);
            state.occupied += moved->footprint() - object->footprint();
            survey_.removed(object);
            index_[aside] = moved;
            index_.erase(slot);
            forget_loss(aside);
            survey_.added(moved);
        }
    }
    if (!gone) return true;
    if (!gone->has_source)
        if (ObjectPtr there = peek(aside)) raise_copies(there, gone->copies);
    remove_file(*gone);
    return true;
}

// The greater number of copies wins, so that all who hold an object compute the same owners.
ObjectPtr Store::raise_copies(const ObjectPtr& object, std::uint16_t copies) {
    std::lock_guard lock(mutex_);
    auto slot = index_.find(object->key);
    if (slot == index_.end() || slot->second != object) return nullptr;
    if (copies <= object->copies) return object;
    auto raised = std::make_shared<Object>(*object);
    raised->copies = copies;
    survey_.removed(object);
    slot->second = raised;
    survey_.added(slot->second);
    return slot->second;
}

}  // namespace holdfast
