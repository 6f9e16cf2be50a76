// What one node knows of objects, without their bytes: which it holds, which keys were dropped or
// lost, and what it shares with its co-owners. Everything that rules 1, 8 and 9 decide on a node is
// decided here; where bytes lie, for how much there is room and what is evicted is up to its user.
// The store and the simulated nodes use the same one.
//
// Not thread-safe: its user locks. No I/O, no clock; nothing blocks. Objects are immutable and
// shared: whoever found one keeps it, whatever happens to the index. What goes through the whole
// index goes in pages, so that a lock need not be held for long.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/status.hpp"
#include "store/held_list.hpp"
#include "store/notices.hpp"
#include "store/object.hpp"
#include "store/survey.hpp"
#include "store/watermarks.hpp"

namespace holdfast {

class ObjectIndex {
  public:
    // ---- written once ------------------------------------------------------------------------

    // Null: the key is the caller's, until it publishes an object or abandons the key. Otherwise
    // what is stored under it, of the same size, to be compared. KeyExists if other bytes are
    // certain or the key was dropped, Busy if it is somebody else's at this moment. A key that is
    // held through another object is the caller's as well: there is nothing to compare with yet.
    // A piece (store/piece.hpp) is Busy, too, while one that it overlaps is being written.
    Result<ObjectPtr> reserve(const std::string& key, std::uint64_t size);
    // The pieces that are stored and that a piece overlaps: where both have bytes they must agree.
    // There will be no more of them while its key is reserved.
    std::vector<ObjectPtr> overlapped(const std::string& key) const;
    // Stores an object under the key that was reserved for it. KeyExists if the key was dropped
    // meanwhile, or what is held under it through another object has another size or digest; it
    // stays reserved then.
    Status publish(ObjectPtr object);
    void abandon(const std::string& key);
    // The greater numbers win, so that all who hold an object compute the same owners, and agree
    // when there are too few. Gives the object as it is then; null if it is no longer here.
    ObjectPtr raise_copies(const ObjectPtr& object, std::uint16_t copies, std::uint16_t least = 0);

    // ---- looking -----------------------------------------------------------------------------

    // Null if absent, not yet published, or dropped and not yet swept.
    ObjectPtr find(const std::string& key) const;
    bool is_being_written(const std::string& key) const;
    // Why it is: NotFound, Dropped, or Damaged if there was a copy that went bad.
    Status absent(const std::string& key) const;
    // OK unless the key was dropped, so that it cannot be written: KeyExists.
    Status writable(const std::string& key) const;
    // Objects whose key starts with `prefix` and comes after `after`, in order.
    std::vector<ObjectPtr> list(const std::string& prefix, const std::string& after,
                                std::size_t most) const;
    struct Listing {
        std::string prefix, reached;  // at first: what they come after
        std::size_t most;
        std::vector<ObjectPtr> found = {};
    };
    // The same, of `looks` keys more; true once there are enough of them, or no more.
    bool list(Listing& listing, std::size_t looks) const;
    // Keys that begin so, and are remembered since their copies went bad.
    std::vector<std::string> lost(const std::string& prefix) const;
    std::uint64_t lost_bytes() const { return lost_bytes_; }

    // ---- leaving -----------------------------------------------------------------------------

    // Exactly that object leaves; false if it is no longer here.
    bool evict(const ObjectPtr& object);  // what has a source still counts
    // It went bad. What has a source is read again; of the rest nobody may say that it never was.
    bool lose(const ObjectPtr& object);
    struct Trimmed {
        bool done = false;  // false: it is another one, or is ours
        ObjectPtr object;   // null: it was held through another one
    };
    // It leaves without a tombstone if we do not own it.
    Trimmed trim(const std::string& key, std::uint64_t size, std::uint32_t crc);

    struct Moved {
        ObjectPtr before;  // null: nothing was done
        ObjectPtr after;   // null: it was given up
    };
    // Another version of exactly that object won its key: it lies under the other key from now on,
    // and so it does if that was there before. What has a source is given up instead. Nothing is
    // done if it is no longer that object, or if the other key is being written at this moment.
    Moved move_aside(const std::string& key, std::uint64_t size, std::uint32_t crc,
                     const std::string& aside);

    // ---- rule 9 ------------------------------------------------------------------------------

    // False if it is known, or says no more than what is known. A key that is dropped is so from
    // now on: nothing finds it, and who is writing it finds out when it publishes. What lies below
    // a watermark leaves in sweeps; until then only digests and counts have it.
    bool learn(const Notice& notice);
    void forget(const Notice& notice) { notices_.forget(notice); }
    const Notices& notices() const { return notices_; }

    // Whether there is something to sweep.
    bool sweeping() const { return !sweeps_.empty(); }
    // Looks at `most` keys more, or at a few notices; true once it is through.
    bool sweep(std::size_t most);
    // What was dropped and has left since this was last asked.
    std::vector<ObjectPtr> take_gone() { return std::exchange(gone_, {}); }

    // ---- rule 8: what co-owners compare (survey.hpp says more, also of ghosts) ---------------

    // Where objects belong from now on, and who we are; 0 is nobody.
    void place(PlacementPtr placement, std::uint64_t self);
    // After a change of placement everything is counted anew. Looks at `most` objects more; true
    // once all are counted, which what follows relies on.
    bool count(std::size_t most);
    // For each co-owner: how many objects we both own and hold here, and their digest.
    std::map<std::uint64_t, std::pair<std::uint64_t, std::uint64_t>> survey() const;
    // Objects that we own first and for which there are too few nodes.
    std::uint64_t short_of_nodes() const { return survey_.short_of_nodes(); }
    std::array<std::uint64_t, Survey::kBuckets> buckets_with(std::uint64_t peer) const;
    // Looks at `most` of them; leaves out those that are dropped.
    std::vector<Held> strays(std::size_t most, const std::string& after) const;

    // Adds to a list what it wants of the next `most` objects; true once it is complete. Needs no
    // count.
    bool fill(HeldList& list, std::size_t most) const;
    // A key that is not here is held through that object, until either leaves or comes: it counts
    // as if it lay here. False, and nothing is done, if the object is not here, or if the key is
    // stored, being written, or dropped.
    bool hold_through(const Held& held, const std::string& object);
    // Wants more copies of exactly that, if it is held through another object.
    void raise_through(const Held& held, std::uint16_t copies, std::uint16_t least);
    // Also what was evicted and still counts, and what is held through another object.
    std::optional<Held> held(const std::string& key) const;
    // An object that has a source and finds no room here: it counts as evicted.
    void let_go(const Held& held);
    // Somebody asked for an object that is not here; if it counted as evicted, it no longer does.
    void missed(const std::string& key) { survey_.forget_ghost(key); }

  private:
    using Objects = std::map<std::string, ObjectPtr>;  // null while it is being written

    // All keys that are stored, being written, or held through another object, in order. Nothing
    // may come or go meanwhile.
    class Walk {
      public:
        Walk(const ObjectIndex& index, const std::string& after)
            : objects_(index.objects_),
              through_(index.survey_.through()),
              object_(objects_.upper_bound(after)),
              held_(through_.upper_bound(after)) {}
        bool done() const { return object_ == objects_.end() && held_ == through_.end(); }
        const std::string& key() const { return at_object() ? object_->first : held_->first; }
        // Null: it is being written, or held through another one.
        ObjectPtr object() const { return at_object() ? object_->second : nullptr; }
        std::optional<Held> held() const;
        void next();

      private:
        bool at_object() const {
            return object_ != objects_.end() &&
                   (held_ == through_.end() || object_->first <= held_->first);
        }
        bool at_held() const {
            return held_ != through_.end() &&
                   (object_ == objects_.end() || held_->first <= object_->first);
        }
        const Objects& objects_;
        const std::map<std::string, Survey::Through>& through_;
        Objects::const_iterator object_;
        std::map<std::string, Survey::Through>::const_iterator held_;
    };

    // What one watermark drops: objects at first, then losses, then notices.
    struct Sweep {
        Watermark mark;
        enum class Part { Begin, Objects, Losses, Notices } part = Part::Begin;
        std::string reached = {};
        std::uint32_t bucket = 0;
    };
    // Each of them is true once it is through.
    bool sweep_objects(Sweep& sweep, std::size_t most);
    bool sweep_losses(Sweep& sweep, std::size_t most);
    bool sweep_notices(Sweep& sweep);
    // Below a watermark, where a sweep may not have been.
    bool hidden(const std::string& key) const { return sweeping() && watermarks_.over(key); }

    Status no_overlap_being_written(const std::string& key) const;
    bool is_here(const ObjectPtr& object) const { return find(object->key) == object; }
    // Null if it is another one.
    ObjectPtr find_exactly(const std::string& key, std::uint64_t size, std::uint32_t crc) const;
    void unlink(const ObjectPtr& object);
    void forget_loss(const std::string& key);
    void forget_held(const std::string& key);  // what is not here as itself
    void remove(const std::string& key);
    bool dropped(const std::string& key) const;

    Objects objects_;
    Notices notices_;
    Watermarks watermarks_;
    std::deque<Sweep> sweeps_;
    std::vector<ObjectPtr> gone_;
    std::set<std::string> lost_;
    std::uint64_t lost_bytes_ = 0;
    Survey survey_;
};

}  // namespace holdfast
