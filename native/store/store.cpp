#include "store/store.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/crc32c.hpp"
#include "base/hash.hpp"
#include "base/log.hpp"

namespace holdfast {
namespace {

constexpr const char* kTierNames[kTiers] = {"memory", "disk"};

Status missing(const std::string& key) {
    return Status(Code::NotFound, "'" + key + "' is not here");
}

}  // namespace

Result<std::unique_ptr<Store>> Store::open(const std::array<TierOptions, kTiers>& tiers) {
    std::unique_ptr<Store> store(new Store);
    for (std::size_t i = 0; i < kTiers; ++i) {
        auto directory = TierDirectory::make(tiers[i].directory);
        if (!directory.ok()) return directory.take_status();
        store->tiers_[i] = std::make_unique<TierState>(std::move(*directory), tiers[i].capacity);
    }
    return store;
}

Store::~Store() = default;

// ---- room
// ----------------------------------------------------------------------------------------

Status Store::reserve(Tier which, std::uint64_t size) {
    auto& state = tier(which);
    std::unique_lock lock(mutex_);
    for (;;) {
        if (size <= state.capacity && state.bytes + state.reserved <= state.capacity - size) {
            state.reserved += size;
            return {};
        }
        std::optional<std::string> victim;
        if (size <= state.capacity)
            victim = state.evictor.choose(
                [&](const std::string& key) { return index_.at(key).pins == 0; });
        if (!victim) {
            ++counters_.refused_full;
            return Status(
                Code::Full,
                std::string("the ") + kTierNames[static_cast<std::size_t>(which)] + " tier has " +
                    std::to_string(state.capacity -
                                   std::min(state.capacity, state.bytes + state.reserved)) +
                    " of " + std::to_string(state.capacity) + " bytes left, not " +
                    std::to_string(size) + "; drop objects or start with a larger capacity");
        }
        auto slot = index_.find(*victim);
        ObjectPtr object = slot->second.object;
        ++counters_.evicted;
        unlink(slot);
        lock.unlock();
        remove_file(*object);
        lock.lock();
    }
}

void Store::release(Tier which, std::uint64_t size) {
    std::lock_guard lock(mutex_);
    tier(which).reserved -= size;
}

void Store::unlink(std::map<std::string, Slot>::iterator slot) {
    const Object& object = *slot->second.object;
    auto& state = tier(object.tier);
    --state.objects;
    state.bytes -= object.size;
    state.reserved += object.size;
    state.evictor.erase(object.key);
    index_.erase(slot);
}

void Store::remove_file(const Object& object) {
    if (!object.in_heap) tier(object.tier).directory.remove(object.name);
    release(object.tier, object.size);
}

// ---- writing
// -------------------------------------------------------------------------------------

Result<Writer> Store::create(NewObject wanted) {
    auto object = std::make_shared<Object>();
    object->key = std::move(wanted.key);
    object->size = wanted.size;
    object->tier = wanted.tier;
    object->has_source = wanted.has_source;
    object->copies = wanted.copies;
    object->in_heap = !wanted.has_source && wanted.size < kHeapLimit;
    object->chunks.reserve(wanted.size / kChunk + 1);
    Writer writer(this, object);
    {
        std::lock_guard lock(mutex_);
        auto [slot, added] = index_.try_emplace(object->key);
        if (!added) {
            writer.store_.release();
            const ObjectPtr& existing = slot->second.object;
            if (!existing)
                return Status(Code::Busy, "somebody else is writing '" + object->key +
                                              "' at this moment; try again");
            if (existing->size != object->size)
                return Status(Code::KeyExists, "'" + object->key +
                                                   "' holds other bytes; a key is written once, "
                                                   "choose another");
            writer.existing_ = existing;
        }
    }
    if (writer.existing_) {
        if (!writer.existing_->in_heap) {
            auto file = open_file(writer.existing_);
            if (!file.ok()) return file.take_status();
            writer.file_ = std::move(*file);
        }
        return writer;
    }
    if (Status status = reserve(object->tier, object->size); !status.ok()) {
        std::lock_guard lock(mutex_);
        index_.erase(object->key);
        writer.store_.release();
        return status;
    }
    if (object->in_heap) {
        object->bytes.reserve(object->size);
        return writer;
    }
    auto file = tier(object->tier).directory.create();
    if (!file.ok()) return file.take_status();
    // The number keeps a file that is being removed apart from the next one under the same key.
    object->name = xxh3_128_hex(object->key) + "-" + std::to_string(file->number);
    writer.file_ = std::move(file->fd);
    writer.temporary_ = std::move(file->name);
    return writer;
}

Status Store::publish(const std::shared_ptr<Object>& object) {
    std::lock_guard lock(mutex_);
    auto& state = tier(object->tier);
    state.reserved -= object->size;
    state.bytes += object->size;
    ++state.objects;
    ++counters_.stored;
    index_.at(object->key).object = object;
    if (object->has_source) state.evictor.insert(object->key, object->size);
    return {};
}

void Store::abandon(const Object& object, const std::string& temporary) {
    if (!temporary.empty()) tier(object.tier).directory.remove(temporary);
    std::lock_guard lock(mutex_);
    tier(object.tier).reserved -= object.size;
    index_.erase(object.key);
}

// ---- reading
// -------------------------------------------------------------------------------------

ObjectPtr Store::find(const std::string& key) {
    std::lock_guard lock(mutex_);
    auto slot = index_.find(key);
    if (slot == index_.end() || !slot->second.object) return nullptr;
    const ObjectPtr& object = slot->second.object;
    if (object->has_source) tier(object->tier).evictor.touch(key);
    return object;
}

Result<Fd> Store::open_file(const ObjectPtr& object) {
    auto file = tier(object->tier).directory.open(object->name);
    // A file that is gone while its object is still in the index was removed by somebody else.
    if (!file.ok() && file.status().code() == Code::Damaged) {
        lose(object, file.status().message());
        return missing(object->key);
    }
    return file;
}

void Store::lose(const ObjectPtr& object, const std::string& why) {
    {
        std::lock_guard lock(mutex_);
        auto slot = index_.find(object->key);
        if (slot == index_.end() || slot->second.object != object) return;  // dropped meanwhile
        ++counters_.damaged;
        unlink(slot);
    }
    log_warning("lost the copy of '" + object->key + "': " + why);
    remove_file(*object);
}

Status Store::drop(const std::string& key) {
    ObjectPtr object;
    {
        std::lock_guard lock(mutex_);
        auto slot = index_.find(key);
        if (slot == index_.end() || !slot->second.object) return missing(key);
        object = slot->second.object;
        ++counters_.dropped;
        unlink(slot);
    }
    remove_file(*object);
    return {};
}

Result<std::uint32_t> Store::pin(const std::string& key, bool add) {
    std::lock_guard lock(mutex_);
    auto slot = index_.find(key);
    if (slot == index_.end() || !slot->second.object) return missing(key);
    std::uint32_t& pins = slot->second.pins;
    if (!add && pins == 0) return Status(Code::BadInput, "'" + key + "' is not pinned");
    pins += add ? 1 : -1;
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

Status Store::verify(const ObjectPtr& object) {
    if (object->in_heap) {
        if (crc32c(0, object->bytes.data(), object->bytes.size()) == object->crc) return {};
        lose(object, "its bytes in memory do not match their checksum");
        return Status(Code::Damaged, "'" + object->key + "' did not match its checksum");
    }
    auto file = open_file(object);
    if (!file.ok()) return file.take_status();
    // Aligned: reading a cached file into memory at odd offsets is several times slower.
    static_assert(kChunk % 4096 == 0);
    std::unique_ptr<char, decltype(&std::free)> chunk(
        static_cast<char*>(std::aligned_alloc(4096, kChunk)), &std::free);
    for (std::size_t i = 0; i < object->chunks.size(); ++i) {
        auto size = std::min<std::uint64_t>(kChunk, object->size - i * kChunk);
        std::uint64_t at = 0;
        while (at < size) {
            auto got = ::pread(file->get(), chunk.get() + at, size - at,
                               static_cast<off_t>(i * kChunk + at));
            if (got < 0 && errno == EINTR) continue;
            if (got <= 0) break;
            at += static_cast<std::uint64_t>(got);
        }
        if (at == size && crc32c(0, chunk.get(), size) == object->chunks[i]) continue;
        lose(object, "its file does not match its checksum");
        return Status(Code::Damaged, "'" + object->key + "' did not match its checksum");
    }
    return {};
}

Usage Store::usage(Tier which) {
    std::lock_guard lock(mutex_);
    auto& state = tier(which);
    return {state.objects, state.bytes, state.reserved, state.capacity};
}

}  // namespace holdfast
