#include "store/store.hpp"

#include <algorithm>
#include <cerrno>

#include "base/fault.hpp"
#include "base/hash.hpp"
#include "store/piece.hpp"

namespace holdfast {
namespace {

// How many keys are looked at with the lock held, unless more are wanted.
constexpr std::size_t kListed = 1000;
constexpr const char* kTierNames[kTiers] = {"memory", "disk"};

Result<Tier> in(Tier tier, Status reserved) {
    if (!reserved.ok()) return reserved;
    return tier;
}

Status held_open() {
    return Status(Code::Full,
                  "the files that programs hold open leave no memory; close some or start "
                  "with a larger capacity");
}

}  // namespace

Result<std::unique_ptr<Store>> Store::open(const std::array<TierOptions, kTiers>& tiers) {
    std::unique_ptr<Store> store(new Store);
    for (std::size_t i = 0; i < kTiers; ++i) {
        auto directory = TierDirectory::make(tiers[i].directory, tiers[i].huge_pages);
        if (!directory.ok())
            return Status(directory.status().code(),
                          directory.status().message() + "; set another " + kTierNames[i] + "_dir");
        store->tiers_[i] = std::make_unique<TierState>(std::move(*directory), tiers[i].capacity);
    }
    return store;
}

Store::~Store() {
    closing_ = true;
    if (sweeper_.joinable()) sweeper_.join();
}

// ---- room ------------------------------------------------------------------------------------

std::uint64_t Store::occupied(Tier which) {
    return account(which).occupied + (which == Tier::Memory ? index_.lost_bytes() : 0);
}

bool Store::is_free(Tier which, std::uint64_t footprint) {
    std::uint64_t capacity = tier(which).capacity;
    return footprint <= capacity &&
           occupied(which) + account(which).reserved <= capacity - footprint;
}

Status Store::full(Tier which, std::uint64_t footprint) {
    std::uint64_t capacity = tier(which).capacity;
    auto& room = account(which);
    std::uint64_t stays = occupied(which) + room.reserved - room.evictor.bytes() - room.leaving;
    if (footprint <= capacity && stays <= capacity - footprint) return {};
    return Status(Code::Full,
                  std::string("the ") + kTierNames[static_cast<std::size_t>(which)] + " tier has " +
                      std::to_string(capacity - std::min(capacity, stays)) + " of " +
                      std::to_string(capacity) + " bytes left, but " + std::to_string(footprint) +
                      " are needed; drop objects or start with a larger capacity");
}

Status Store::reserve(Tier which, std::uint64_t footprint) {
    Lock lock(mutex_);
    for (;;) {
        if (is_free(which, footprint)) {
            account(which).reserved += footprint;
            return {};
        }
        // Nothing is evicted for the sake of what would not fit even then.
        if (Status status = full(which, footprint); !status.ok()) return status;
        auto victim = account(which).evictor.choose();
        if (!victim) {  // others are removing files at this moment
            room_.wait(lock);
            continue;
        }
        ObjectPtr object = index_.find(*victim);
        ++counters_.evicted;
        index_.evict(object);
        left(*object);
        lock.unlock();
        fault_point(Stage::Evict);
        remove_file(*object);
        lock.lock();
    }
}

Status Store::reserve_for_object(Tier which, std::uint64_t footprint) {
    for (;;) {
        bool is_all = !is_sweeping() || footprint > tier(which).capacity;
        Status status = reserve(which, footprint);
        if (status.ok() || is_all) return status;
        Lock lock(mutex_);
        if (index_.sweeping()) room_.wait(lock);
    }
}

Tier Store::spill_tier(Tier wanted) {
    bool out = tier(Tier::Disk).condemned || Clock::now() < account(Tier::Disk).full_until;
    return out ? wanted : Tier::Disk;
}

Result<Tier> Store::reserve_for_file(Tier wanted, std::uint64_t footprint) {
    std::array tiers{wanted, wanted};
    {
        Lock lock(mutex_);
        tiers[1] = spill_tier(wanted);
    }
    // Nothing is evicted if that would not be enough.
    auto hopeless = [&](Tier which) {
        if (which != Tier::Memory) return false;
        std::uint64_t evictable;
        {
            Lock lock(mutex_);
            evictable = account(which).evictor.bytes();
        }
        std::uint64_t made = std::min(footprint, evictable),
                      most = tier(which).capacity + evictable;
        return !tier(which).directory.has_room(footprint - made, most - made);
    };
    Status why;
    for (bool evict : {false, true})
        for (Tier which : tiers) {
            Status status = !evict            ? reserve_free(which, footprint)
                            : hopeless(which) ? held_open()
                                              : reserve(which, footprint);
            if (status.ok()) status = really_free(which, footprint);
            if (status.ok() && which != wanted) ++counters_.spilled;
            if (status.ok()) return which;
            if (evict && why.ok()) why = std::move(status);
        }
    return why;
}

Status Store::reserve_free(Tier which, std::uint64_t footprint) {
    Lock lock(mutex_);
    if (!is_free(which, footprint)) return Status(Code::Full, "it would have to evict");
    account(which).reserved += footprint;
    return {};
}

Status Store::really_free(Tier which, std::uint64_t footprint) {
    auto& state = tier(which);
    if (which != Tier::Memory || state.directory.has_room(footprint, state.capacity)) return {};
    give_back(which, footprint);
    return held_open();
}

bool Store::has_room(Tier wanted, std::uint64_t size) {
    Object object;
    object.size = size;
    Lock lock(mutex_);
    return full(usable(wanted), object.footprint()).ok();
}

Status Store::room_for_file(Tier wanted, std::uint64_t size) {
    Object file;
    file.size = size;
    wanted = usable(wanted);
    Lock lock(mutex_);
    Status why = full(wanted, file.footprint());
    return why.ok() || full(spill_tier(wanted), file.footprint()).ok() ? Status() : why;
}

void Store::give_back(Tier which, std::uint64_t bytes) {
    Lock lock(mutex_);
    account(which).reserved -= bytes;
    room_.notify_all();
}

// ---- writing ---------------------------------------------------------------------------------

Status Store::other_contents(const ObjectPtr& existing) {
    // Perhaps it is our copy that went bad: nobody may be turned away for its sake.
    if (!verify(existing).ok())
        return Status(Code::Damaged,
                      "the copy of '" + existing->key +
                          "' on this node was damaged and has been dropped; put it again");
    return Status(Code::KeyExists, "'" + existing->key +
                                       "' has other contents; a key is written once, choose "
                                       "another");
}

Result<Writer> Store::create(NewObject wanted) {
    if (Status status = PieceKey::check(wanted.key, wanted.size); !status.ok()) return status;
    auto object = std::make_shared<Object>();
    object->key = std::move(wanted.key);
    object->size = wanted.size;
    object->tier = usable(wanted.tier);
    object->home = wanted.tier;
    object->has_source = wanted.has_source;
    object->copies = wanted.copies;
    object->least = wanted.has_source ? std::uint16_t{0} : wanted.least.value_or(wanted.copies);
    object->header = std::move(wanted.header);
    object->in_heap =
        !wanted.has_source && wanted.size < kHeapLimit && object->tier == Tier::Memory;
    ObjectPtr existing;
    std::vector<ObjectPtr> overlapped;
    {
        Lock lock(mutex_);
        auto reserved = index_.reserve(object->key, object->size);
        if (!reserved.ok()) return reserved.take_status();
        existing = std::move(*reserved);
        if (!existing && !wanted.is_copy) overlapped = index_.overlapped(object->key);
    }
    if (existing) {
        if (existing->header.bytes != object->header.bytes) return other_contents(existing);
        Writer writer(this, object);
        writer.existing_ = existing;
        if (!existing->in_heap) {
            auto file = open_file(existing);
            if (!file.ok() && file.status().code() == Code::Dropped) {
                Lock lock(mutex_);
                return index_.writable(object->key);
            }
            if (!file.ok() && file.status().code() != Code::Busy)
                return Status(Code::Damaged, "the copy of '" + object->key +
                                                 "' on this node was lost; put it again");
            if (!file.ok()) return file.take_status();
            writer.file_ = std::move(*file);
        }
        return writer;
    }
    auto found = object->has_source
                     ? reserve_for_file(object->tier, object->footprint())
                     : in(object->tier, reserve_for_object(object->tier, object->footprint()));
    if (!found.ok()) {
        ++counters_.refused_full;
        Lock lock(mutex_);
        index_.abandon(object->key);
        return found.take_status();
    }
    object->tier = *found;
    Writer writer(this, object);
    writer.overlapped_ = std::move(overlapped);
    object->chunks.reserve(object->size / kChunk + 1);  // not before we know that it fits
    if (object->in_heap) {
        object->bytes.reserve(object->size);
        return writer;
    }
    if (Status status = add_file(writer); !status.ok()) return status;
    return writer;
}

Status Store::add_file(Writer& writer) {
    auto& object = *writer.object_;
    auto file = tier(object.tier).directory.create(object.size);
    if (!file.ok()) {
        int error = errno;
        if (write_failed(object.tier, error))
            return system_failure(Code::Busy, "cannot write '" + object.key + "'", error);
        return file.take_status();
    }
    // The number keeps a file that is being removed apart from the next one under the same key.
    object.name = file->place + xxh3_128_hex(object.key) + "-" + std::to_string(file->number);
    writer.file_ = std::move(file->fd);
    writer.temporary_ = std::move(file->name);
    return {};
}

Status Store::publish(const std::shared_ptr<Object>& object) {
    Lock lock(mutex_);
    if (tier(object->tier).condemned)
        return Status(Code::Busy, "the disk under '" + object->key + "' has failed; try again");
    if (Status status = index_.publish(object); !status.ok()) return status;
    auto& state = account(object->tier);
    state.reserved -= object->footprint();
    state.occupied += object->footprint();
    state.bytes += object->size;
    ++state.objects;
    state.files += object->has_source;
    state.file_bytes += object->has_source ? object->size : 0;
    ++counters_.stored;
    if (object->has_source) state.evictor.insert(object->key, object->footprint());
    return {};
}

void Store::abandon(const Object& object, const std::string& temporary) {
    if (!temporary.empty()) tier(object.tier).directory.remove(temporary);
    Lock lock(mutex_);
    account(object.tier).reserved -= object.footprint();
    index_.abandon(object.key);
}

// ---- reading ---------------------------------------------------------------------------------

ObjectPtr Store::find(const std::string& key) {
    Lock lock(mutex_);
    ObjectPtr object = index_.find(key);
    if (object && object->has_source) account(object->tier).evictor.touch(key);
    return object;
}

ObjectPtr Store::peek(const std::string& key) {
    Lock lock(mutex_);
    return index_.find(key);
}

bool Store::is_being_written(const std::string& key) {
    Lock lock(mutex_);
    return index_.is_being_written(key);
}

std::vector<ObjectPtr> Store::list(const std::string& prefix, const std::string& after,
                                   std::size_t most) {
    ObjectIndex::Listing listing{prefix, after, most};
    for (bool complete = false; !complete;) {
        Lock lock(mutex_);
        complete = index_.list(listing, std::max(most, kListed));
    }
    return std::move(listing.found);
}

Usage Store::usage(Tier which) {
    Lock lock(mutex_);
    auto& state = account(which);
    bool condemned = tier(which).condemned;
    return {state.objects,
            state.bytes,
            occupied(which),
            state.reserved,
            condemned ? 0 : tier(which).capacity,
            state.files,
            state.file_bytes,
            condemned};
}

}  // namespace holdfast
