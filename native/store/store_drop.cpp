// How objects leave the store, and what is remembered of them.
#include <system_error>
#include <thread>

#include "base/fault.hpp"
#include "base/thread.hpp"
#include "store/store.hpp"

namespace holdfast {
namespace {

// How many keys are looked at with the lock held.
constexpr std::size_t kSwept = 256;

}  // namespace

void Store::left(const Object& object) {
    auto& state = account(object.tier);
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
    if (!object.in_heap) tier(object.tier).directory.remove(object.name);
    Lock lock(mutex_);
    auto& state = account(object.tier);
    state.reserved -= object.footprint();
    state.leaving -= object.footprint();
    room_.notify_all();
}

std::vector<std::string> Store::lost(const std::string& prefix) {
    Lock lock(mutex_);
    return index_.lost(prefix);
}

Status Store::absent(const std::string& key) {
    Lock lock(mutex_);
    return index_.absent(key);
}

// ---- dropping --------------------------------------------------------------------------------

std::size_t Store::learn(const std::vector<Notice>& notices) {
    std::size_t added = 0;
    for (auto& notice : notices) {
        std::vector<ObjectPtr> gone;
        {
            Lock lock(mutex_);
            if (!index_.learn(notice)) continue;
            ++added;
            gone = index_.take_gone();
            for (auto& object : gone) left(*object);
            if (auto watch = watches_.find(notice.topic); watch != watches_.end())
                for (auto& text : watch->second(notice.text)) index_.forget({notice.topic, text});
        }
        remove_files(gone);
    }
    begin_sweep();
    return added;
}

void Store::remove_files(const std::vector<ObjectPtr>& dropped) {
    counters_.dropped += dropped.size();
    for (auto& object : dropped) {
        if (closing_) return;  // all files go
        fault_point(Stage::Drop);
        remove_file(*object);
    }
}

bool Store::is_sweeping() {
    Lock lock(mutex_);
    return index_.sweeping();
}

void Store::begin_sweep() {
    {
        Lock lock(mutex_);
        if (sweeper_runs_ || !index_.sweeping()) return;
        if (sweeper_.joinable()) sweeper_.join();
        sweeper_runs_ = true;
        try {
            sweeper_ = start_thread([this] { sweep(); });
            return;
        } catch (const std::system_error&) {  // the limit of the user or of the cgroup
        }
    }
    sweep();
}

void Store::sweep() {
    for (;;) {
        std::vector<ObjectPtr> gone;
        {
            Lock lock(mutex_);
            if (closing_ || !index_.sweeping()) {
                sweeper_runs_ = false;
                room_.notify_all();  // who waits has no more to wait for
                return;
            }
            index_.sweep(kSwept);
            gone = index_.take_gone();
            for (auto& object : gone) left(*object);
        }
        remove_files(gone);
        std::this_thread::yield();  // the lock, to who waits for it
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
