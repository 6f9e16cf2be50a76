// How objects leave the store, and what is remembered of them.
#include "base/fault.hpp"
#include "store/store.hpp"

namespace holdfast {

void Store::left(const Object& object) {
    auto& state = tier(object.tier);
    --state.objects;
    state.files -= object.has_source;
    state.file_bytes -= object.has_source ? object.size : 0;
    state.bytes -= object.size;
    state.occupied -= object.footprint();
    state.reserved += object.footprint();
    state.leaving += object.footprint();
    state.evictor.erase(object.key);
}

void Store::remove_file(const Object& object) {
    auto& state = tier(object.tier);
    if (!object.in_heap) state.directory.remove(object.name);
    std::lock_guard lock(mutex_);
    state.reserved -= object.footprint();
    state.leaving -= object.footprint();
    room_.notify_all();
}

Status Store::absent(const std::string& key) {
    std::lock_guard lock(mutex_);
    return index_.absent(key);
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
            auto burial = index_.bury(key);
            if (!burial.is_new) continue;
            ++added;
            if (watch_)
                for (auto& said : watch_(key)) index_.forget_dropped(said);
            if (!burial.gone) continue;
            object = burial.gone;
            ++counters_.dropped;
            left(*object);
        }
        fault_point(Stage::Drop);
        remove_file(*object);
    }
    return added;
}

std::pair<std::uint64_t, std::uint64_t> Store::dropped_digest() {
    std::lock_guard lock(mutex_);
    return {index_.dropped().count(), index_.dropped().digest()};
}

std::uint64_t Store::dropped_bytes() {
    std::lock_guard lock(mutex_);
    return index_.dropped().bytes() + index_.dropped().count() * kEntryBytes;
}

std::array<std::uint64_t, DroppedKeys::kBuckets> Store::dropped_buckets() {
    std::lock_guard lock(mutex_);
    return index_.dropped().buckets();
}

std::vector<std::string> Store::dropped_in(const std::vector<std::uint32_t>& buckets) {
    std::lock_guard lock(mutex_);
    return index_.dropped().in(buckets);
}

}  // namespace holdfast
