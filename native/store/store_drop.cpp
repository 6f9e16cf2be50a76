// How objects leave the store, and what is remembered of them.
#include "base/fault.hpp"
#include "store/store.hpp"

namespace holdfast {
namespace {

// How many objects are looked at with the lock held.
constexpr std::size_t kSwept = 1000;

}  // namespace

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
    Lock lock(mutex_);
    state.reserved -= object.footprint();
    state.leaving -= object.footprint();
    room_.notify_all();
}

Status Store::absent(const std::string& key) {
    Lock lock(mutex_);
    return index_.absent(key);
}

// ---- dropping --------------------------------------------------------------------------------

std::size_t Store::learn(const std::vector<Notice>& notices) {
    std::size_t added = 0;
    for (auto& notice : notices) {
        {
            Lock lock(mutex_);
            if (index_.learn(notice)) {
                ++added;
                if (auto watch = watches_.find(notice.topic); watch != watches_.end())
                    for (auto& text : watch->second(notice.text))
                        index_.forget({notice.topic, text});
            }
        }
        // Also what is known: another thread that learned it may not be through yet.
        sweep(notice);
    }
    return added;
}

void Store::sweep(const Notice& notice) {
    ObjectIndex::Sweep sweep{notice};
    for (bool through = false; !through;) {
        {
            Lock lock(mutex_);
            through = index_.sweep(sweep, kSwept);
            for (auto& object : sweep.gone) left(*object);
        }
        counters_.dropped += sweep.gone.size();
        for (auto& object : sweep.gone) {
            fault_point(Stage::Drop);
            remove_file(*object);
        }
        sweep.gone.clear();
    }
}

std::pair<std::uint64_t, std::uint64_t> Store::notice_digest() {
    Lock lock(mutex_);
    return {index_.notices().count(), index_.notices().digest()};
}

std::uint64_t Store::notice_bytes() {
    Lock lock(mutex_);
    return index_.notices().bytes() + index_.notices().count() * kEntryBytes;
}

std::array<std::uint64_t, Notices::kBuckets> Store::notice_buckets() {
    Lock lock(mutex_);
    return index_.notices().buckets();
}

std::vector<std::string> Store::notices_in(const std::vector<std::uint32_t>& buckets) {
    Lock lock(mutex_);
    return index_.notices().in(buckets);
}

}  // namespace holdfast
