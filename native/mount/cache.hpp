// Things that were fetched, under a number: the least used go when there are too many of them, or
// when nobody used them for a while. One fetches, who wants the same meanwhile waits for it.
//
// Thread-safe. get() blocks for as long as its fetch.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>

#include "base/clock.hpp"
#include "base/mutex.hpp"
#include "base/single_flight.hpp"

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
        for (;;) {
            Lock lock(mutex_);
            if (auto there = slots_.find(key); there != slots_.end()) return use(there->second);
            auto flight = flights_.board(key);
            lock.unlock();
            if (flight.leads()) return fetch_and_keep(key, fetch, flight);
            flight.wait();
            // Why it failed, only who fetched it knows: everybody else tries for itself.
            if (flight.value()) return *flight.value();
        }
    }

    void drop(const Key& key) {
        Lock lock(mutex_);
        if (auto there = slots_.find(key); there != slots_.end()) remove(there);
        flights_.forget(key);
    }

    // Lets go of what nobody used lately.
    void sweep(TimePoint now) {
        Lock lock(mutex_);
        while (!order_.empty()) {
            auto oldest = slots_.find(order_.front());
            if (now - oldest->second.used < idle_) return;
            remove(oldest);
        }
    }

  private:
    using Flights = SingleFlight<Key, Pointer>;
    struct Slot {
        Pointer value;
        std::uint64_t weight;
        TimePoint used;
        typename std::list<Key>::iterator place;
    };
    using Slots = std::map<Key, Slot>;

    template <typename Fetch>
    Pointer fetch_and_keep(const Key& key, Fetch& fetch, typename Flights::Ticket& flight) {
        std::uint64_t weight = 1;
        Pointer value = fetch(weight);
        if (!value) return value;
        // It is kept before the flight ends, and both at once, so that nobody fetches it again.
        Lock lock(mutex_);
        if (flight.is_current()) {
            auto place = order_.insert(order_.end(), key);
            slots_.emplace(key, Slot{value, weight, Clock::now(), place});
            used_ += weight;
            shrink();
        }
        return flight.land(std::move(value));
    }

    Pointer use(Slot& slot) REQUIRES(mutex_) {
        order_.splice(order_.end(), order_, slot.place);
        slot.used = Clock::now();
        return slot.value;
    }
    void remove(typename Slots::iterator at) REQUIRES(mutex_) {
        used_ -= at->second.weight;
        order_.erase(at->second.place);
        slots_.erase(at);
    }
    // The newest stays, whatever it weighs.
    void shrink() REQUIRES(mutex_) {
        while (used_ > room_ && order_.size() > 1) remove(slots_.find(order_.front()));
    }

    const std::uint64_t room_;
    const Duration idle_;
    Mutex mutex_;
    Flights flights_ GUARDED_BY(mutex_);
    Slots slots_ GUARDED_BY(mutex_);
    std::list<Key> order_ GUARDED_BY(mutex_);  // the one that was used last is the last
    std::uint64_t used_ GUARDED_BY(mutex_) = 0;
};

}  // namespace holdfast::mount
