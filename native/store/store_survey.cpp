// What the store tells its co-owners (rule 8), and how it lets go of what it does not own: the
// index under a lock that is given away between its pages.
#include <thread>

#include "base/fault.hpp"
#include "store/store.hpp"

namespace holdfast {
namespace {

// Small enough that nobody who wants the lock for a moment waits long.
constexpr std::size_t kObjectsAtOnce = 256;

}  // namespace

void Store::place(PlacementPtr placement, std::uint64_t self) {
    Lock lock(mutex_);
    index_.place(std::move(placement), self);
}

void Store::finish_survey() {
    Lock lock(mutex_);
    while (!index_.count(kObjectsAtOnce)) {
        lock.unlock();
        std::this_thread::yield();
        lock.lock();
    }
}

std::map<std::uint64_t, std::pair<std::uint64_t, std::uint64_t>> Store::survey() {
    finish_survey();
    Lock lock(mutex_);
    return index_.survey();
}

std::uint64_t Store::short_of_nodes() {
    finish_survey();
    Lock lock(mutex_);
    return index_.short_of_nodes();
}

std::array<std::uint64_t, Survey::kBuckets> Store::buckets_with(std::uint64_t peer) {
    finish_survey();
    Lock lock(mutex_);
    return index_.buckets_with(peer);
}

std::vector<Held> Store::held_with(std::uint64_t peer, const std::vector<std::uint32_t>& buckets) {
    HeldList list(peer, buckets);
    for (bool complete = false; !complete;) {
        Lock lock(mutex_);
        complete = index_.fill(list, kObjectsAtOnce);
    }
    return list.take();
}

std::vector<Held> Store::strays(std::size_t most, const std::string& after) {
    finish_survey();
    Lock lock(mutex_);
    return index_.strays(most, after);
}

std::optional<Held> Store::held(const std::string& key) {
    Lock lock(mutex_);
    return index_.held(key);
}

void Store::let_go(const Held& held) {
    Lock lock(mutex_);
    index_.let_go(held);
}

void Store::missed(const std::string& key) {
    Lock lock(mutex_);
    index_.missed(key);
}

bool Store::trim(const std::string& key, std::uint64_t size, std::uint32_t crc) {
    fault_point(Stage::Trim);
    ObjectIndex::Trimmed trimmed;
    {
        Lock lock(mutex_);
        trimmed = index_.trim(key, size, crc);
        if (!trimmed.done) return false;
        ++counters_.trimmed;
        if (!trimmed.object) return true;
        left(*trimmed.object);
    }
    remove_file(*trimmed.object);
    return true;
}

// Readers keep what they found: neither its bytes nor its file are touched.
bool Store::move_aside(const std::string& key, std::uint64_t size, std::uint32_t crc,
                       const std::string& aside) {
    ObjectIndex::Moved moved;
    {
        Lock lock(mutex_);
        moved = index_.move_aside(key, size, crc, aside);
        if (!moved.before) return false;
        if (moved.after) {
            account(moved.before->tier).occupied +=
                moved.after->footprint() - moved.before->footprint();
            return true;
        }
        left(*moved.before);
    }
    remove_file(*moved.before);
    return true;
}

ObjectPtr Store::raise_copies(const ObjectPtr& object, std::uint16_t copies, std::uint16_t least) {
    Lock lock(mutex_);
    return index_.raise_copies(object, copies, least);
}

}  // namespace holdfast
