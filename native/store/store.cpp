#include "store/store.hpp"

#include <algorithm>

#include "base/fault.hpp"
#include "base/hash.hpp"

namespace holdfast {
namespace {

constexpr const char* kTierNames[kTiers] = {"memory", "disk"};

Status was_dropped(const std::string& key) {
    return Status(Code::KeyExists,
                  "'" + key + "' was dropped; a key is written once, choose another");
}

Status taken(const std::string& key) {
    return Status(Code::KeyExists,
                  "'" + key + "' holds other bytes; a key is written once, choose another");
}

}  // namespace

Result<std::unique_ptr<Store>> Store::open(const std::array<TierOptions, kTiers>& tiers) {
    std::unique_ptr<Store> store(new Store);
    for (std::size_t i = 0; i < kTiers; ++i) {
        auto directory = TierDirectory::make(tiers[i].directory, tiers[i].large_pages);
        if (!directory.ok()) return directory.take_status();
        store->tiers_[i] = std::make_unique<TierState>(std::move(*directory), tiers[i].capacity);
    }
    return store;
}

Store::~Store() = default;

// ---- room ------------------------------------------------------------------------------------

Status Store::reserve(Tier which, std::uint64_t footprint) {
    auto& state = tier(which);
    std::unique_lock lock(mutex_);
    for (;;) {
        std::uint64_t taken = state.occupied + state.reserved;
        if (footprint <= state.capacity && taken <= state.capacity - footprint) {
            state.reserved += footprint;
            return {};
        }
        // Nothing is evicted for the sake of what would not fit even then.
        std::uint64_t stays = taken - state.evictor.bytes() - state.leaving;
        if (footprint > state.capacity || stays > state.capacity - footprint) {
            ++counters_.refused_full;
            return Status(
                Code::Full,
                std::string("the ") + kTierNames[static_cast<std::size_t>(which)] + " tier has " +
                    std::to_string(state.capacity - std::min(state.capacity, stays)) + " of " +
                    std::to_string(state.capacity) + " bytes left, not " +
                    std::to_string(footprint) + "; drop objects or start with a larger capacity");
        }
        auto victim = state.evictor.choose();
        if (!victim) {  // others are removing files at this moment
            room_.wait(lock);
            continue;
        }
        auto slot = index_.find(*victim);
        ObjectPtr object = slot->second.object;
        ++counters_.evicted;
        unlink(slot);
        survey_.let_go(Held::of(*object));
        lock.unlock();
        fault_point(Stage::Evict);
        remove_file(*object);
        lock.lock();
    }
}

void Store::give_back(std::uint64_t bytes) {
    std::lock_guard lock(mutex_);
    tier(Tier::Memory).reserved -= bytes;
    room_.notify_all();
}

// ---- writing ---------------------------------------------------------------------------------

Result<Writer> Store::create(NewObject wanted) {
    auto object = std::make_shared<Object>();
    object->key = std::move(wanted.key);
    object->size = wanted.size;
    object->tier = wanted.tier;
    object->has_source = wanted.has_source;
    object->copies = wanted.copies;
    object->in_heap = !wanted.has_source && wanted.size < kHeapLimit && wanted.tier == Tier::Memory;
    ObjectPtr existing;
    {
        std::lock_guard lock(mutex_);
        if (dropped_.contains(object->key)) return was_dropped(object->key);
        auto [slot, added] = index_.try_emplace(object->key);
        if (!added) {
            existing = slot->second.object;
            if (!existing)
                return Status(Code::Busy, "somebody else is writing '" + object->key +
                                              "' at this moment; try again");
            if (existing->size != object->size) return taken(object->key);
        }
    }
    if (existing) {
        Writer writer(this, object);
        writer.existing_ = existing;
        if (!existing->in_heap) {
            auto file = open_file(existing);
            if (!file.ok() && file.status().code() == Code::Dropped)
                return was_dropped(object->key);
            if (!file.ok() && file.status().code() != Code::Busy)
                return Status(Code::Damaged,
                              "the copy of '" + object->key + "' here was lost; put it again");
            if (!file.ok()) return file.take_status();
            writer.file_ = std::move(*file);
        }
        return writer;
    }
    if (Status status = reserve(object->tier, object->footprint()); !status.ok()) {
        std::lock_guard lock(mutex_);
        index_.erase(object->key);
        return status;
    }
    Writer writer(this, object);
    object->chunks.reserve(object->size / kChunk + 1);  // not before we know that it fits
    if (object->in_heap) {
        object->bytes.reserve(object->size);
        return writer;
    }
    auto file = tier(object->tier).directory.create(object->size);
    if (!file.ok()) return file.take_status();
    // The number keeps a file that is being removed apart from the next one under the same key.
    object->name = file->place + xxh3_128_hex(object->key) + "-" + std::to_string(file->number);
    writer.file_ = std::move(file->fd);
    writer.temporary_ = std::move(file->name);
    return writer;
}

Status Store::publish(const std::shared_ptr<Object>& object) {
    std::lock_guard lock(mutex_);
    if (dropped_.contains(object->key)) return was_dropped(object->key);
    auto& state = tier(object->tier);
    state.reserved -= object->footprint();
    state.occupied += object->footprint();
    state.bytes += object->size;
    ++state.objects;
    state.files += object->has_source;
    state.file_bytes += object->has_source ? object->size : 0;
    ++counters_.stored;
    index_.at(object->key).object = object;
    if (object->has_source) state.evictor.insert(object->key, object->footprint());
    forget_loss(object->key);
    survey_.added(object);
    return {};
}

void Store::abandon(const Object& object, const std::string& temporary) {
    if (!temporary.empty()) tier(object.tier).directory.remove(temporary);
    std::lock_guard lock(mutex_);
    tier(object.tier).reserved -= object.footprint();
    index_.erase(object.key);
}

// ---- reading ---------------------------------------------------------------------------------

ObjectPtr Store::find(const std::string& key) {
    std::lock_guard lock(mutex_);
    auto slot = index_.find(key);
    if (slot == index_.end() || !slot->second.object) return nullptr;
    const ObjectPtr& object = slot->second.object;
    if (object->has_source) tier(object->tier).evictor.touch(key);
    return object;
}

ObjectPtr Store::peek(const std::string& key) {
    std::lock_guard lock(mutex_);
    auto slot = index_.find(key);
    return slot == index_.end() ? nullptr : slot->second.object;
}

Result<std::uint32_t> Store::pin(const std::string& key, bool add) {
    std::lock_guard lock(mutex_);
    auto slot = index_.find(key);
    if (slot == index_.end() || !slot->second.object) return absence(key);
    std::uint32_t& pins = slot->second.pins;
    if (!add && pins == 0) return Status(Code::BadInput, "'" + key + "' is not pinned");
    pins += add ? 1 : -1;
    const Object& object = *slot->second.object;
    if (object.has_source) {
        auto& evictor = tier(object.tier).evictor;
        if (add && pins == 1) evictor.erase(key);
        if (!add && pins == 0) evictor.insert(key, object.footprint());
    }
    return pins;
}

std::uint32_t Store::pins(const std::string& key) {
    std::lock_guard lock(mutex_);
    auto slot = index_.find(key);
    return slot == index_.end() ? 0 : slot->second.pins;
}

std::vector<ObjectPtr> Store::list(const std::string& prefix, const std::string& after,
                                   std::size_t most) {
    std::vector<ObjectPtr> found;
    std::lock_guard lock(mutex_);
    auto slot = after < prefix ? index_.lower_bound(prefix) : index_.upper_bound(after);
    for (; slot != index_.end() && slot->first.starts_with(prefix) && found.size() < most; ++slot)
        if (slot->second.object) found.push_back(slot->second.object);
    return found;
}

Usage Store::usage(Tier which) {
    std::lock_guard lock(mutex_);
    auto& state = tier(which);
    return {state.objects,  state.bytes, state.occupied,  state.reserved,
            state.capacity, state.files, state.file_bytes};
}

}  // namespace holdfast
