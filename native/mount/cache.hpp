// Things that were fetched, under a number: the least used go when there are too many of them, or
// when nobody used them for a while. One fetches, who wants the same meanwhile waits for it.
//
// Thread-safe. get() blocks for as long as its fetch.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>

#include "base/clock.hpp"

namespace holdfast::mount {

template <typename Key, typename Value>
class Cache {
  public:
    using Pointer = std::shared_ptr<const Value>;

    // `room` is counted in what fetches say that their value weighs.
    Cache(std::uint64_t room, Duration idle) : room_(room), idle_(idle) {}

    // What is there, or what `fetch(weight)` returns; null if that failed, and then nothing is
    // kept. Nor is anything kept that was fetched while drop() was called.
    template <typename Fetch>
    Pointer get(const Key& key, Fetch fetch) {
        std::shared_ptr<Slot> slot;
        {
            std::lock_guard lock(mutex_);
            auto& there = slots_[key];
            if (!there) {
                there = std::make_shared<Slot>();
                there->place = order_.insert(order_.end(), key);
            }
            order_.splice(order_.end(), order_, there->place);
            there->used = Clock::now();
            slot = there;
        }
        std::lock_guard fetching(slot->mutex);
        if (slot->value) return slot->value;
        std::uint64_t weight = 1;
        Pointer value = fetch(weight);
        std::lock_guard lock(mutex_);
        auto there = slots_.find(key);
        if (there == slots_.end() || there->second != slot) return value;  // dropped meanwhile
        if (!value) {
            remove(there);
        } else {
            slot->value = value;
            slot->weight = weight;
            used_ += weight;
            shrink(slot);
        }
        return value;
    }

    void drop(const Key& key) {
        std::lock_guard lock(mutex_);
        if (auto there = slots_.find(key); there != slots_.end()) remove(there);
    }

    // Lets go of what nobody used lately.
    void sweep(TimePoint now) {
        std::lock_guard lock(mutex_);
        while (!order_.empty()) {
            auto oldest = slots_.find(order_.front());
            if (now - oldest->second->used < idle_) return;
            remove(oldest);
        }
    }

  private:
    struct Slot {
        std::mutex mutex;  // held while it is fetched
        Pointer value;
        std::uint64_t weight = 0;
        TimePoint used;
        typename std::list<Key>::iterator place;
    };
    using Slots = std::map<Key, std::shared_ptr<Slot>>;

    void remove(typename Slots::iterator at) {
        used_ -= at->second->weight;
        order_.erase(at->second->place);
        slots_.erase(at);
    }
    void shrink(const std::shared_ptr<Slot>& newest) {
        while (used_ > room_) {
            auto oldest = slots_.find(order_.front());
            if (oldest->second == newest) return;
            remove(oldest);
        }
    }

    const std::uint64_t room_;
    const Duration idle_;
    std::mutex mutex_;
    Slots slots_;
    std::list<Key> order_;  // the one that was used last is the last
    std::uint64_t used_ = 0;
};

}  // namespace holdfast::mount
