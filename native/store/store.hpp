// The store of one node: the objects of an index, in two tiers with hard capacities. What the index
// knows and decides is in object_index.hpp; here are its lock, the files and the room for them.
//
// Thread-safe. find(), absent(), list() and usage() take a short lock and do no I/O; learn()
// unlinks files, which may block; create() and Writer write files; verify() reads them. What lies
// below a watermark leaves in a thread of the store's own, which ends when there is no more.
// Objects are immutable and shared: a reader keeps what it found, whatever happens to the index.
//
// What was dropped is remembered for ever and never stored again. Notices of it count in no tier:
// who drops what nobody can drop again must not lose room for objects. A key whose copy went bad is
// remembered until it is stored again or dropped, in the place of its object in the memory tier.
//
// A disk that keeps failing is condemned for the life of the store: what would lie there lies in
// the memory tier from then on. If it was reads that failed, all that lay on it counts as lost.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "base/mutex.hpp"
#include "rpc/incidents.hpp"
#include "store/evictor.hpp"
#include "store/object_index.hpp"
#include "store/tier_directory.hpp"
#include "store/writer.hpp"

namespace holdfast {

struct TierOptions {
    std::string directory;
    std::uint64_t capacity = 0;
    bool huge_pages = false;
};

struct Usage {
    std::uint64_t objects = 0;
    std::uint64_t bytes = 0;     // stored
    std::uint64_t occupied = 0;  // of the capacity, by what is stored (Object::footprint)
    std::uint64_t reserved = 0;  // of the capacity, by what is on its way in or out
    std::uint64_t capacity = 0;
    std::uint64_t files = 0, file_bytes = 0;  // of the objects, those that have a source
    bool condemned = false;                   // then the capacity is none
};

struct StoreCounters {
    std::atomic<std::uint64_t> stored{0}, evicted{0}, dropped{0}, trimmed{0}, damaged{0},
        refused_full{0};
    std::atomic<std::uint64_t> spilled{0};  // to the disk, since memory had no room
    // Files that programs wrote, and those of them that had to be copied.
    std::atomic<std::uint64_t> sealed{0}, seal_copied{0};
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
        std::optional<std::uint16_t> least = {};  // unless all of them; nothing with a source
        ObjectHeader header = {};
        // It is a copy of what others hold. Of pieces, each is kept beside what it overlaps then,
        // as after a cut there may be; readers put them together in the order of their keys.
        bool is_copy = false;
    };
    // Reserves room and the key. KeyExists if other bytes are certain or the key was dropped; if
    // the size is the same, or if it is a piece that overlaps others, the Writer compares. Busy if
    // another Writer has the key, Full if nothing more can be evicted, BadInput if it is a piece
    // that cannot be. What has a source lies on the disk where memory has no room for it.
    Result<Writer> create(NewObject wanted);

    ObjectPtr find(const std::string& key);  // null if absent; counts as a use
    ObjectPtr peek(const std::string& key);  // the same, and does not
    bool is_being_written(const std::string& key);
    // Why it is: NotFound, Dropped, or Damaged if there was a copy that went bad.
    Status absent(const std::string& key);
    // Keys that begin so, and whose copies went bad.
    std::vector<std::string> lost(const std::string& prefix);
    // The file behind an object. If it is gone, cut short or cannot be read the object counts as
    // lost from then on.
    Result<Fd> open_file(const ObjectPtr& object);
    // Where it lies, for other processes.
    std::string path_of(const Object& object);

    // Removes the object, if it is here, and remembers its key in any case.
    void drop(const std::string& key) { learn({{Topic::Tombstone, key}}); }
    // Rule 9: what is dropped is found no more when this returns, and never comes back. What has a
    // tombstone has left by then; what lies below a watermark leaves bit by bit, and so it does not
    // take longer the more that is. Gives how many notices say something that we did not know.
    std::size_t learn(const std::vector<Notice>& notices);
    // Whether something is still to leave.
    bool is_sweeping();
    // Called with the text of each new notice of a topic, with the lock held. Gives the texts of
    // the topic, perhaps that one, which say nothing any more that others do not: they are
    // forgotten.
    using Watch = std::function<std::vector<std::string>(const std::string&)>;
    void watch(Topic topic, Watch watch) {
        Lock lock(mutex_);
        watches_[topic] = std::move(watch);
    }
    // Called when a copy was given up as bad, which may still lie there under its name. Set before
    // other threads use the store.
    void watch_lost(std::function<void()> watch) { watch_lost_ = std::move(watch); }
    // Told of bad copies and condemned tiers from now on; before other threads use the store.
    void tell(Incidents& incidents) { incidents_ = &incidents; }
    std::pair<std::uint64_t, std::uint64_t> notice_digest();  // how many, and Notices::digest
    std::uint64_t notice_bytes();                             // of memory, about
    std::array<std::uint64_t, Notices::kBuckets> notice_buckets();
    std::vector<std::string> notices_in(const std::vector<std::uint32_t>& buckets);

    // Objects whose key starts with `prefix` and comes after `after`, in order.
    std::vector<ObjectPtr> list(const std::string& prefix, const std::string& after,
                                std::size_t most);

    // Rule 8, under the placement given last, as in ObjectIndex; the first calls after a change of
    // it take a while.
    void place(PlacementPtr placement, std::uint64_t self);
    std::map<std::uint64_t, std::pair<std::uint64_t, std::uint64_t>> survey();
    std::uint64_t short_of_nodes();
    std::array<std::uint64_t, Survey::kBuckets> buckets_with(std::uint64_t peer);
    // As HeldList::take().
    std::vector<Held> held_with(std::uint64_t peer, const std::vector<std::uint32_t>& buckets);
    std::vector<Held> strays(std::size_t most, const std::string& after);
    std::optional<Held> held(const std::string& key);
    void let_go(const Held& held);
    void missed(const std::string& key);
    bool trim(const std::string& key, std::uint64_t size, std::uint32_t crc);
    bool move_aside(const std::string& key, std::uint64_t size, std::uint32_t crc,
                    const std::string& aside);
    ObjectPtr raise_copies(const ObjectPtr& object, std::uint16_t copies, std::uint16_t least = 0);

    // For files that are no objects (files/single_use.hpp): room, in memory or else on the disk,
    // which is given back by hand, and where they lie.
    Result<Tier> set_aside(std::uint64_t bytes) { return reserve_for_file(Tier::Memory, bytes); }
    void give_back(Tier which, std::uint64_t bytes);
    TierDirectory& nameless_files(Tier which) { return tier(which).directory; }
    // Whether an object of that size would find room in that tier at this moment.
    bool has_room(Tier wanted, std::uint64_t size);
    // Full if a file of that size, wanted in that tier, would find no room in any at this moment.
    Status room_for_file(Tier wanted, std::uint64_t size);

    // Reads an object again and compares; a bad copy is dropped and counted.
    Status verify(const ObjectPtr& object);
    // Somebody met this error while reading the object's file: the object counts as lost, unless
    // it was no fault of the medium.
    void unreadable(const ObjectPtr& object, int error);
    // Counts a failed read of a tier's files; too many condemn it, with all that is there.
    void medium_failed(Tier which, int error);
    // Counts a failed write, if it was the medium's, and says so. Too many condemn the tier too,
    // but what can be read there is served as before.
    bool write_failed(Tier which, int error);

    Usage usage(Tier tier);
    std::uint64_t capacity(Tier which) { return tier(usable(which)).capacity; }
    const StoreCounters& counters() const { return counters_; }

  private:
    friend class Writer;
    friend class Handing;
    struct TierState {
        TierState(TierDirectory place, std::uint64_t most)
            : directory(std::move(place)), capacity(most) {}
        TierDirectory directory;
        const std::uint64_t capacity;
        std::atomic<bool> condemned{false};  // nothing is written there any more
    };
    // What is counted of a tier.
    struct Account {
        int failures = 0;  // of reads
        std::uint64_t objects = 0, bytes = 0, files = 0, file_bytes = 0;
        // Footprints: of objects, of what is on its way in or out, and of the latter alone.
        std::uint64_t occupied = 0, reserved = 0, leaving = 0;
        Evictor evictor;  // of what is stored and has a source
        int write_failures = 0;
        TimePoint full_until{};  // its file system had no room a moment ago
    };

    Store() = default;
    TierState& tier(Tier which) { return *tiers_[static_cast<std::size_t>(which)]; }
    Account& account(Tier which) REQUIRES(mutex_) {
        return accounts_[static_cast<std::size_t>(which)];
    }
    // Where objects that want to lie in a tier are put.
    Tier usable(Tier which) { return tier(which).condemned ? Tier::Memory : which; }
    Status reserve(Tier which, std::uint64_t footprint);
    // The same, and waits for room from what was dropped.
    Status reserve_for_object(Tier which, std::uint64_t footprint);
    // Where files go for which their tier has no room.
    Tier spill_tier(Tier wanted) REQUIRES(mutex_);
    // For what has a source: what is free here or on the disk goes before what others must leave.
    Result<Tier> reserve_for_file(Tier wanted, std::uint64_t footprint);
    Status reserve_free(Tier which, std::uint64_t footprint);  // Full if others had to leave
    // What left the index, or was never in it, takes memory as long as a program has it open. Full
    // if a reservation finds no room beside that; it is given back then.
    Status really_free(Tier which, std::uint64_t footprint);
    // Whether so much is free; Full if it is not even after evictions.
    bool is_free(Tier which, std::uint64_t footprint) REQUIRES(mutex_);
    Status full(Tier which, std::uint64_t footprint) REQUIRES(mutex_);
    Status add_file(Writer& writer);  // a new one, in the tier of its object
    Status publish(const std::shared_ptr<Object>& object);
    void abandon(const Object& object, const std::string& temporary);
    // Of objects, and of keys that are remembered in their place.
    std::uint64_t occupied(Tier which) REQUIRES(mutex_);
    // An object has left the index; its room stays reserved until its file is removed.
    void left(const Object& object) REQUIRES(mutex_);
    void remove_file(const Object& object);
    void finish_survey();
    void begin_sweep();
    void sweep();
    void remove_files(const std::vector<ObjectPtr>& dropped);
    bool lose(const ObjectPtr& object, const std::string& why);  // false if it is not here
    // What a writer is told who brought other bytes, or another header, than lie here.
    Status other_contents(const ObjectPtr& existing);
    void note(event::Incident::Kind kind, Tier which, const std::string& key, std::string why);

    Mutex mutex_;
    Condition room_;                                        // something has left
    std::array<std::unique_ptr<TierState>, kTiers> tiers_;  // the same ones from open() on
    std::array<Account, kTiers> accounts_ GUARDED_BY(mutex_);
    ObjectIndex index_ GUARDED_BY(mutex_);
    std::map<Topic, Watch> watches_ GUARDED_BY(mutex_);
    std::function<void()> watch_lost_;
    Incidents* incidents_ = nullptr;
    StoreCounters counters_;
    std::thread sweeper_ GUARDED_BY(mutex_);
    bool sweeper_runs_ GUARDED_BY(mutex_) = false;  // if not, it takes the lock no more
    std::atomic<bool> closing_{false};
};

}  // namespace holdfast
