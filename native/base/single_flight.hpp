// Single flight (request coalescing): of those who want the same thing at the same time one, who
// leads, gets it, and the others wait for that.
//
// Thread-safe; it must outlive its tickets, and a ticket belongs to one thread at a time. Only
// wait(), wait_for() and, for who does not lead, run() block. A leader whose ticket is dropped, by
// an exception as well, ends its flight: who waits then gets no value. Nobody joins a flight that
// has ended: who comes after it leads the next one, and does well to look first whether the last
// one brought what it wants.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <variant>

#include "base/clock.hpp"
#include "base/mutex.hpp"

namespace holdfast {

// `Shared` is what all of a flight see while it lasts, as far as its own locks permit.
template <typename Key, typename Value, typename Shared = std::monostate>
class SingleFlight {
    struct Flight {
        Condition changed;
        std::size_t joined = 0;
        bool open = true;            // it can be joined
        bool over = false;           // there is a value, or there will be none
        std::optional<Value> value;  // constant once it is there
        [[no_unique_address]] Shared shared = {};
    };

  public:
    class Ticket {
      public:
        Ticket(Ticket&&) noexcept = default;
        Ticket& operator=(Ticket&&) = delete;
        ~Ticket() {
            if (flight_ && leads_) flights_->end(key_, *flight_);
        }

        bool leads() const { return leads_; }
        Shared& shared() const { return flight_->shared; }

        // ---- for who leads

        // Nobody joins from now on. Whether somebody had: else nobody wants the value.
        bool close() { return flights_->close(key_, *flight_); }
        // Gives the value to all who have joined, and to those who do so until the ticket is
        // dropped. Only once.
        const Value& give(Value value) { return flights_->give(*flight_, std::move(value)); }
        // Both: it was the last thing to do.
        const Value& land(Value value) {
            close();
            return give(std::move(value));
        }
        // Whether it is still what others would join: nobody has called forget().
        bool is_current() const { return flights_->is_open(*flight_); }

        // ---- for those who joined

        void wait() { flights_->wait(*flight_, std::nullopt); }
        // False if there is neither a value nor an end of the flight by then.
        bool wait_for(Duration time) { return flights_->wait(*flight_, time); }
        // After the wait, for as long as the ticket is there; null if there is none.
        const Value* value() const { return flight_->value ? &*flight_->value : nullptr; }

      private:
        friend class SingleFlight;
        Ticket(SingleFlight* flights, Key key, std::shared_ptr<Flight> flight, bool leads)
            : flights_(flights), key_(std::move(key)), flight_(std::move(flight)), leads_(leads) {}

        SingleFlight* flights_;
        Key key_;
        std::shared_ptr<Flight> flight_;
        bool leads_;
    };

    // Joins the flight under way, or leads a new one.
    Ticket board(const Key& key) {
        Lock lock(mutex_);
        auto& flight = flights_[key];
        bool leads = !flight;
        if (leads) {
            flight = std::make_shared<Flight>();
        } else {
            ++flight->joined;
            ++joined_;
        }
        return Ticket(this, key, flight, leads);
    }

    // What `find` returns, called by who leads; nothing if it does not come within the deadline, or
    // not at all. The leader bears no deadline but its own.
    template <typename Find>
    std::optional<Value> run(const Key& key, Duration deadline, Find find) {
        Ticket ticket = board(key);
        if (ticket.leads()) return ticket.land(find());
        if (!ticket.wait_for(deadline) || !ticket.value()) return std::nullopt;
        return *ticket.value();
    }

    // Who comes from now on does not join the flight under way: what it brings is out of date.
    void forget(const Key& key) {
        Lock lock(mutex_);
        if (auto found = flights_.find(key); found != flights_.end()) {
            found->second->open = false;
            flights_.erase(found);
        }
    }

    // How many have ever joined a flight of another.
    std::uint64_t joined() const { return joined_; }

  private:
    bool close(const Key& key, Flight& flight) {
        Lock lock(mutex_);
        remove(key, flight);
        return flight.joined > 0;
    }
    void end(const Key& key, Flight& flight) {
        Lock lock(mutex_);
        remove(key, flight);
        flight.over = true;
        flight.changed.notify_all();
    }
    const Value& give(Flight& flight, Value value) {
        Lock lock(mutex_);
        flight.value.emplace(std::move(value));
        flight.over = true;
        flight.changed.notify_all();
        return *flight.value;
    }
    bool is_open(const Flight& flight) {
        Lock lock(mutex_);
        return flight.open;
    }
    bool wait(Flight& flight, std::optional<Duration> time) {
        Lock lock(mutex_);
        auto over = [&] { return flight.over; };
        if (time) return flight.changed.wait_for(lock, *time, over);
        flight.changed.wait(lock, over);
        return true;
    }
    void remove(const Key& key, Flight& flight) REQUIRES(mutex_) {
        if (std::exchange(flight.open, false)) flights_.erase(key);
    }

    Mutex mutex_;
    std::map<Key, std::shared_ptr<Flight>> flights_ GUARDED_BY(mutex_);
    std::atomic<std::uint64_t> joined_{0};
};

}  // namespace holdfast
