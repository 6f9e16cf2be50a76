// How objects leave the store, and what is remembered of them.
#include "base/fault.hpp"
#include "store/store.hpp"

namespace holdfast {

void Store::unlink(Index::iterator slot) {
    const Object& object = *slot->second;
    auto& state = tier(object.tier);
    --state.objects;
    state.files -= object.has_source;
    state.file_bytes -= object.has_source ? object.size : 0;
    state.bytes -= object.size;
    state.occupied -= object.footprint();
    state.reserved += object.footprint();
    state.leaving += object.footprint();
    state.evictor.erase(object.key);
    survey_.removed(slot->second);
    index_.erase(slot);
}

void Store::remove_file(const Object& object) {
    auto& state = tier(object.tier);
    if (!object.in_heap) state.directory.remove(object.name);
    std::lock_guard lock(mutex_);
    state.reserved -= object.footprint();
    state.leaving -= object.footprint();
    room_.notify_all();
}

// ---- keys that are remembered ----------------------------------------------------------------

// Never refused for want of room: to forget would be worse than to go a little beyond.
void Store::remember_loss(const std::string& key) {
    if (lost_.insert(key).second) tier(Tier::Memory).occupied += key.size() + kEntryBytes;
}

Status Store::absence(const std::string& key) const {
    if (dropped_.contains(key)) return Status(Code::Dropped, "'" + key + "' was dropped");
    if (lost_.contains(key))
        return Status(Code::Damaged,
                      "the copy of '" + key + "' on this node was damaged and has been dropped");
    return Status(Code::NotFound, "'" + key + "' is not on this node");
}

Status Store::absent(const std::string& key) {
    std::lock_guard lock(mutex_);
    return absence(key);
}

// ---- dropping --------------------------------------------------------------------------------

void Store::drop(const std::string& key) {
    bury({key});
}

std::size_t Store::bury(const std::vector<std::string>& keys) {
    std::size_t added = 0;
    for (auto& key : keys) {
        ObjectPtr object;
        {
            std::lock_guard lock(mutex_);
            if (!dropped_.add(key)) continue;
            ++added;
            forget_loss(key);
            survey_.forget_ghost(key);
            if (watch_)
                for (auto& said : watch_(key)) dropped_.forget(said);
            // A Writer that has the key finds the tombstone when it commits.
            auto slot = index_.find(key);
            if (slot == index_.end() || !slot->second) continue;
            object = slot->second;
            ++counters_.dropped;
            unlink(slot);
        }
        fault_point(Stage::Drop);
        remove_file(*object);
    }
    return added;
}

std::pair<std::uint64_t, std::uint64_t> Store::dropped_digest() {
    std::lock_guard lock(mutex_);
    return {dropped_.count(), dropped_.digest()};
}

std::uint64_t Store::dropped_bytes() {
    std::lock_guard lock(mutex_);
    return dropped_.bytes() + dropped_.count() * kEntryBytes;
}

std::array<std::uint64_t, DroppedKeys::kBuckets> Store::dropped_buckets() {
    std::lock_guard lock(mutex_);
    return dropped_.buckets();
}

std::vector<std::string> Store::dropped_in(const std::vector<std::uint32_t>& buckets) {
    std::lock_guard lock(mutex_);
    return dropped_.in(buckets);
}

}  // namespace holdfast
