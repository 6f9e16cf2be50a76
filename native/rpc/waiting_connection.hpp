// A client's end of a waiting connection: many calls at once, answered in any order.
//
// It is shared by all threads that wait at one agent, and has none of its own: among those who wait
// for an answer one watches the socket for all (leader and followers), and whoever holds the lock
// reads and hands out what is there. Thread-safe. open(), send() and result() may block; nothing
// else does. None may outlive its pool.
//
// A forked child leaves what its parent had alone: calls that were made before fail there.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "base/clock.hpp"
#include "base/mutex.hpp"
#include "rpc/channel.hpp"
#include "rpc/frame.hpp"

namespace holdfast {

class ConnectionPool;
class PendingCall;

class WaitingConnection : public std::enable_shared_from_this<WaitingConnection> {
  public:
    WaitingConnection(ConnectionPool& pool, std::string address)
        : pool_(pool), address_(std::move(address)) {}
    ~WaitingConnection();

    // Connects, unless somebody has; those who wait for that share its failure.
    Status open(Duration deadline);
    Result<PendingCall> send(std::string_view meta, Duration within, Duration silence);
    bool usable();  // for another call
    // Ends it if no call has waited for `longest`.
    void retire(Duration longest);

    // Nothing of a connection that a forked child inherits can be relied on, locks least of all.
    static void forked();

  private:
    friend class PendingCall;
    struct Slot {
        std::uint64_t request = 0;
        Duration silence{};
        TimePoint sent{}, end{};
        std::optional<Result<std::string>> result{};
        Condition wake{};  // a result, or somebody must watch the socket
    };

    Result<std::string> result(Slot& slot);
    bool done(Slot& slot);
    void cancel(Slot& slot);

    // The first three give the lock up meanwhile.
    Status flush(TimePoint end) REQUIRES(mutex_);
    void watch(TimePoint until) REQUIRES(mutex_);
    // Waits for the socket, or also to be woken.
    void poll(short events, bool also_woken, TimePoint until) REQUIRES(mutex_);
    void queue(Op op, std::uint64_t request, std::string_view meta, Duration silence)
        REQUIRES(mutex_);
    bool send_some() REQUIRES(mutex_);  // false if the socket takes no more
    void receive() REQUIRES(mutex_);    // all that is there
    void take_frames() REQUIRES(mutex_);
    void take(const Header& header, std::string_view meta, std::string_view body) REQUIRES(mutex_);
    // Sees whether there is an answer, or will be none.
    void conclude(Slot& slot) REQUIRES(mutex_);
    TimePoint silent_by(const Slot& slot) const REQUIRES(mutex_) {
        return std::max(heard_, slot.sent) + slot.silence;
    }
    void finish(Slot& slot, Result<std::string> result) REQUIRES(mutex_);
    void withdraw(Slot& slot, Status reason) REQUIRES(mutex_);
    void fail(Status reason) REQUIRES(mutex_);
    void close_unless_polled() REQUIRES(mutex_);

    ConnectionPool& pool_;
    const std::string address_;
    Mutex dialling_ ACQUIRED_BEFORE(mutex_);
    Mutex mutex_;  // before the pool's
    std::optional<Channel> channel_ GUARDED_BY(mutex_);
    Fd waker_ GUARDED_BY(mutex_);                       // of the thread that watches; an eventfd
    int polling_ GUARDED_BY(mutex_) = 0;                // threads, without the lock
    std::optional<Status> failure_ GUARDED_BY(mutex_);  // nothing goes over it any more
    std::map<std::uint64_t, std::shared_ptr<Slot>> slots_ GUARDED_BY(mutex_);
    std::multiset<Slot*> waiting_ GUARDED_BY(mutex_);  // somebody is in result()
    bool watched_ GUARDED_BY(mutex_) = false;          // one of those watches the socket
    std::string input_ GUARDED_BY(mutex_);             // from a frame's first byte on
    std::string output_ GUARDED_BY(mutex_);            // from an unsent byte on
    std::uint64_t next_request_ GUARDED_BY(mutex_) = 1;
    TimePoint heard_ GUARDED_BY(mutex_){};
    TimePoint idle_since_ GUARDED_BY(mutex_) = Clock::now();
};

// A call that is answered later. The last reference to it cancels it.
class PendingCall {
  public:
    PendingCall(PendingCall&&) = default;
    PendingCall& operator=(PendingCall&&) = delete;
    ~PendingCall();

    // The answer, as often as it is asked for. A signal may end the wait (Channel's `interrupted`),
    // not the call.
    Result<std::string> result();
    bool done();
    void cancel();

  private:
    friend class WaitingConnection;
    using Slot = WaitingConnection::Slot;
    PendingCall(std::shared_ptr<WaitingConnection> connection, std::shared_ptr<Slot> slot);
    bool inherited() const;  // by a forked child

    std::shared_ptr<WaitingConnection> connection_;
    std::shared_ptr<Slot> slot_;
    std::uint64_t forks_;  // when it was made
};

}  // namespace holdfast
