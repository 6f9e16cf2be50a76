// The store of one node: an index of objects in two tiers with hard capacities.
//
// Thread-safe. find(), absent(), pin(), list() and usage() take a short lock and do no I/O; drop()
// and bury() unlink files, which may block; create() and Writer write files; verify() reads them.
// Objects are immutable and shared: a reader keeps what it found, whatever happens to the index.
//
// A key that was dropped is remembered for ever and never stored again. A key whose copy went bad
// is remembered until it is stored again or dropped. Both count in the capacity of the memory tier.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "store/directory.hpp"
#include "store/dropped.hpp"
#include "store/eviction.hpp"
#include "store/object.hpp"
#include "store/survey.hpp"
#include "store/writer.hpp"

namespace holdfast {

struct TierOptions {
    std::string directory;
    std::uint64_t capacity = 0;
    bool large_pages = false;
};

struct Usage {
    std::uint64_t objects = 0;
    std::uint64_t bytes = 0;     // stored
    std::uint64_t occupied = 0;  // of the capacity, by what is stored (Object::footprint)
    std::uint64_t reserved = 0;  // of the capacity, by what is on its way in or out
    std::uint64_t capacity = 0;
    std::uint64_t files = 0, file_bytes = 0;  // of the objects, those that have a source
};

struct StoreCounters {
    std::atomic<std::uint64_t> stored{0}, evicted{0}, dropped{0}, trimmed{0}, damaged{0},
        refused_full{0};
};

class Store {
  public:
    static Result<std::unique_ptr<Store>> open(const std::array<TierOptions, kTiers>& tiers);
    ~Store();

    struct NewObject {
        std::string key;
        std::uint64_t size = 0;
        Tier tier = Tier::Memory;
        bool has_source = false;
        std::uint16_t copies = 1;
    };
    // Reserves room and the key. KeyExists if other bytes are certain or the key was dropped; if
    // the size is the same the Writer compares. Busy if another Writer has the key, Full if nothing
    // more can be evicted.
    Result<Writer> create(NewObject wanted);

    ObjectPtr find(const std::string& key);  // null if absent; counts as a use
    ObjectPtr peek(const std::string& key);  // the same, and does not
    // Why it is: NotFound, Dropped, or Damaged if there was a copy that went bad.
    Status absent(const std::string& key);
    // The file behind an object. If it is gone or cut short the object counts as lost from then on.
    Result<Fd> open_file(const ObjectPtr& object);
    // Where it lies, for other processes.
    std::string path_of(const Object& object);

    // Removes the object, if it is here, and remembers its key in any case.
    void drop(const std::string& key);
    // The same for keys that others have dropped; gives how many we did not know.
    std::size_t bury(const std::vector<std::string>& keys);
    // Called for each key when it is first known to be dropped, with the lock held.
    void watch_dropped(std::function<void(const std::string&)> watch) { watch_ = std::move(watch); }
    std::pair<std::uint64_t, std::uint64_t> dropped_digest();  // how many, and DroppedKeys::digest
    std::array<std::uint64_t, DroppedKeys::kBuckets> dropped_buckets();
    std::vector<std::string> dropped_in(const std::vector<std::uint32_t>& buckets);

    // Pinned objects are not evicted; pins count. Gives the number of pins.
    Result<std::uint32_t> pin(const std::string& key, bool add);
    std::uint32_t pins(const std::string& key);

    // Objects whose key starts with `prefix` and comes after `after`, in order.
    std::vector<ObjectPtr> list(const std::string& prefix, const std::string& after,
                                std::size_t most);

    // Rule 8, under the placement given last (survey.hpp says more, also of ghosts); the first
    // calls after a change of it take a while.
    void place(PlacementPtr placement);
    // For each co-owner: how many objects we both own and hold here, and their digest.
    std::map<std::uint64_t, std::pair<std::uint64_t, std::uint64_t>> survey();
    // Objects that we own first and that want more copies than there are nodes.
    std::uint64_t short_of_nodes();
    std::array<std::uint64_t, Survey::kBuckets> buckets_with(std::uint64_t peer);
    // Whole buckets, in their order: one at least, and no more than fit an answer.
    std::vector<Held> held_with(std::uint64_t peer, const std::vector<std::uint32_t>& buckets);
    std::vector<Held> strays(std::size_t most, const std::string& after);
    // Also what was evicted and still counts.
    std::optional<Held> held(const std::string& key);
    // An object that has a source and finds no room here: it counts as evicted.
    void let_go(const Held& held);
    // Somebody asked for an object that is not here; if it counted as evicted, it no longer does.
    void missed(const std::string& key);
    // Removes exactly that object, without a tombstone, if we do not own it and it is not pinned.
    bool trim(const std::string& key, std::uint64_t size, std::uint32_t crc);
    // Gives the object as it is then; null if it is no longer here.
    ObjectPtr raise_copies(const ObjectPtr& object, std::uint16_t copies);

    // For files that are no objects (files/single_use.hpp): room in the memory tier, which is given
    // back by hand, and where they lie.
    Status set_aside(std::uint64_t bytes) { return reserve(Tier::Memory, bytes); }
    void give_back(std::uint64_t bytes);
    TierDirectory& nameless_files() { return tier(Tier::Memory).directory; }

    // Reads an object again and compares; a bad copy is dropped and counted.
    Status verify(const ObjectPtr& object);

    Usage usage(Tier tier);
    std::uint64_t capacity(Tier which) { return tier(which).capacity; }
    const StoreCounters& counters() const { return counters_; }

  private:
    friend class Writer;
    struct Slot {
        ObjectPtr object;  // null while it is being written
        std::uint32_t pins = 0;
    };
    struct TierState {
        TierState(TierDirectory place, std::uint64_t most)
            : directory(std::move(place)), capacity(most) {}
        TierDirectory directory;
        const std::uint64_t capacity;
        std::uint64_t objects = 0, bytes = 0, files = 0, file_bytes = 0;
        // Footprints: of what is stored, of what is on its way in or out, and of the latter alone.
        std::uint64_t occupied = 0, reserved = 0, leaving = 0;
        Evictor evictor;  // of what is stored, has a source and is not pinned
    };

    Store() = default;
    TierState& tier(Tier which) { return *tiers_[static_cast<std::size_t>(which)]; }
    Status reserve(Tier which, std::uint64_t footprint);
    Status publish(const std::shared_ptr<Object>& object);
    void abandon(const Object& object, const std::string& temporary);
    // Takes an object out of the index; its room stays reserved until its file is removed.
    void unlink(std::map<std::string, Slot>::iterator slot);
    void remove_file(const Object& object);
    void finish_survey();
    void lose(const ObjectPtr& object, const std::string& why);
    // With the lock held.
    Status absence(const std::string& key) const;
    void remember(const std::string& key);
    void forget_loss(const std::string& key);

    std::mutex mutex_;
    std::condition_variable room_;  // something has left
    std::array<std::unique_ptr<TierState>, kTiers> tiers_;
    std::map<std::string, Slot> index_;
    DroppedKeys dropped_;
    std::function<void(const std::string&)> watch_;
    std::unordered_set<std::string> lost_;
    Survey survey_;
    StoreCounters counters_;
};

}  // namespace holdfast
