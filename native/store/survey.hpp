// What anti-entropy compares (rule 8): which objects a node shares with whom, and which are not its
// own to keep.
//
// An object that has a source may be evicted. It then stays counted as a *ghost*, so that co-owners
// do not send it to and fro; until it is stored again, dropped, or the placement changes, or until
// somebody who never had it asks us for it in vain.
//
// A key may also be held *through* another object, from which, with other nodes, its bytes can be
// reconstructed. It counts as if it lay here, under every placement, until that object leaves.
//
// It follows what comes and goes, so asking costs nothing. After a change of placement everything
// is counted anew, in the order of keys and a page at a time: what comes or goes behind the count
// is added at once, what lies ahead of it is left to the count. Not thread-safe. No I/O.
// What is not owned is not counted.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "placement/placement.hpp"
#include "store/object.hpp"

namespace holdfast {

struct Held {
    std::string key;
    std::uint64_t size = 0;
    std::uint32_t crc = 0;  // with its header
    Tier tier = Tier::Memory;
    std::uint16_t copies = 1;

    bool has_source = false;
    std::uint16_t least = 0;

    static Held of(const Object& object) {
        return {object.key,    object.size,       object.full_crc(), object.home,
                object.copies, object.has_source, object.least};
    }
    // False of what a broadcast brought (0 copies): nobody has to keep it or bring it back.
    bool is_owned() const { return copies != 0; }
};

class Survey {
  public:
    static constexpr std::size_t kBuckets = 64;  // by the top 6 bits of the key's hash
    static std::size_t bucket_of(const std::string& key);
    // The same for equal objects only.
    static std::uint64_t digest_of(const Held& held);

    struct Shared {  // with one member: how many, the xor of their digests, and that by bucket
        std::uint64_t count = 0, digest = 0;
        std::array<std::uint64_t, kBuckets> buckets{};
    };

    // Counts from the beginning, unless objects belong where they did before. 0 is nobody's number.
    void restart(PlacementPtr placement, std::uint64_t self);
    bool complete() const { return complete_; }
    // The key up to which all is counted; empty before the first.
    const std::string& reached() const { return reached_; }
    // Null: it is being written. What is held through another object is counted in the same order.
    void count(const std::string& key, const ObjectPtr& object);
    void finish() { complete_ = true; }

    void added(const ObjectPtr& object);
    void removed(const ObjectPtr& object);

    // An object left, or could not enter, for want of room.
    void let_go(const Held& held);
    void forget_ghost(const std::string& key);
    const std::map<std::string, Held>& ghosts() const { return ghosts_; }

    // A key that is not here itself is held through that object from now on, and no longer.
    void hold_through(const Held& held, const std::string& object);
    void forget_through(const std::string& key);
    void forget_all_through(const std::string& object);
    struct Through {
        Held held;
        std::string object;
    };
    const std::map<std::string, Through>& through() const { return through_; }

    // Of an object, in the placement that is surveyed; nobody if there is none.
    Owners owners(const Held& held) const;
    std::uint64_t self() const { return placement_ ? self_ : 0; }

    const std::map<std::uint64_t, Shared>& shared() const { return shared_; }
    // How many objects we own first for which there are too few nodes.
    std::uint64_t short_of_nodes() const { return short_of_nodes_; }
    // Keys of what is here, as itself or through another object, and not ours.
    const std::set<std::string>& strays() const { return strays_; }

  private:
    bool counted(const std::string& key) const;
    void change(const Held& held, bool add);
    void share(const Held& held, const Owners& owners, bool add);

    PlacementPtr placement_;
    std::uint64_t self_ = 0;
    bool begun_ = false, complete_ = true;  // without a placement there is nothing to count
    std::string reached_;
    std::map<std::uint64_t, Shared> shared_;  // by the number of the other member
    std::set<std::string> strays_;
    std::map<std::string, Held> ghosts_;
    std::map<std::string, Through> through_;
    std::map<std::string, std::set<std::string>> carried_;  // keys by what they are held through
    std::uint64_t short_of_nodes_ = 0;
};

}  // namespace holdfast
