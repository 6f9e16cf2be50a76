// Files for the programs of this node, by descriptor: of the copy that this node holds, or of a
// single-use file into which another node's copy was fetched.
//
// Owners are asked as owner_walk.hpp says. One that fails is avoided for a while (trust.hpp) and
// reported to Python as doubted; the request that met the failure goes on at once. NotCached: the
// shared file system is the better place to read it from.
//
// Thread-safe. handle() does not block; what may, waits in a lane of its own, for the lanes in
// which other agents read: nobody waits for it but programs.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.hpp"
#include "base/fd.hpp"
#include "base/mutex.hpp"
#include "base/single_flight.hpp"
#include "base/status.hpp"
#include "files/attribute_table.hpp"
#include "files/files.hpp"
#include "files/messages.hpp"
#include "files/owner_walk.hpp"
#include "files/single_use.hpp"
#include "files/trust.hpp"
#include "placement/current_placement.hpp"
#include "rpc/connection_pool.hpp"
#include "rpc/events.hpp"
#include "rpc/handlers.hpp"
#include "rpc/incidents.hpp"
#include "store/store.hpp"

namespace holdfast {

// What a reader gets: the original's attributes and a descriptor, at its start, of all its bytes,
// or, if it asked for a part, perhaps of that alone.
struct Passed {
    Attributes attributes;
    Fd descriptor;
    bool fetched = false;            // from another node
    std::optional<Range> part = {};  // nothing: the whole file
};

struct OpenCounters {
    // Descriptors passed of our own copies and of fetched files, bytes fetched, failures met.
    std::atomic<std::uint64_t> local{0}, fetched{0}, fetched_bytes{0}, failures{0};
};

class FileOpener {
  public:
    FileOpener(Store& store, Files& files, ConnectionPool& peers, CurrentPlacement& placement,
               Events& events, Incidents& incidents)
        : store_(store),
          files_(files),
          peers_(peers),
          placement_(placement),
          events_(events),
          incidents_(incidents) {}

    ~FileOpener() { files_.catalog().watch({}); }

    void set(const TrustSettings& settings);
    // Before requests come: what originals are like is told in a file there from then on.
    Status publish(const std::string& table);
    void add_to(Handlers& handlers);
    Outcome handle(const Request& request);
    // A program is about to change a path, or another member says so: answered when it is
    // invalidated at all members that live and answer.
    Outcome invalidate(const Request& request);

    const OpenCounters& counters() const { return counters_; }
    // Requests that waited for another's fetch.
    std::uint64_t joined() const { return fetches_.joined(); }

  private:
    // How far a fetch is, for those who wait for it.
    class Fetch {
      public:
        void received(std::uint64_t bytes) { received_ += bytes; }  // from another member
        void fills(std::shared_ptr<Growing> growing);               // by ourselves
        std::uint64_t bytes() const;

      private:
        std::atomic<std::uint64_t> received_{0};
        mutable Mutex mutex_;
        std::shared_ptr<Growing> growing_ GUARDED_BY(mutex_);
    };
    struct Owner {
        std::uint64_t member;
        const std::string& address;
        Duration deadline;  // that it is trusted with
    };
    // Whom the walk asks next; none at its end.
    std::optional<Owner> next(OwnerWalk& walk);
    void record_name(const FileOrder& order, const FileCopy& copy, std::uint64_t cache_epoch);
    Answer pass(const FileOrder& order, Result<Passed> passed);
    // Those who ask for the same file at the same time wait for one of them.
    Result<Passed> join(const FileOrder& order, Duration deadline);
    Result<Passed> find(const FileOrder& order, Duration deadline, Fetch& own);
    // This node's own copy, after a fill if there is none.
    Result<Passed> local(const FileOrder& order, Duration deadline, Fetch& own);
    Result<Passed> when_whole(FileCopy copy, Duration deadline);
    // A part of one of our own files that is on its way: nobody gets a file that still grows.
    Result<Passed> copy_part(const FileOrder& order, const FileCopy& copy, Duration deadline);
    Result<Passed> fetch(const Owner& owner, const FileOrder& order, Duration left, Fetch& own);
    Result<Passed> receive(const Owner& owner, const FileOrder& order, Duration wait, Fetch& own,
                           bool& began);
    void tell_all(const std::string& path, const std::string& notice, Duration deadline,
                  std::vector<std::string>& again);
    void answered(std::uint64_t member, Duration first_byte);
    void failed(std::uint64_t member, const std::string& path, const Status& status);

    Store& store_;
    Files& files_;
    ConnectionPool& peers_;
    CurrentPlacement& placement_;
    Events& events_;
    Incidents& incidents_;
    std::unique_ptr<AttributeTable> table_;
    OpenCounters counters_;

    Mutex mutex_;
    Trust trust_ GUARDED_BY(mutex_);
    // One file may go to all who ask for it at once: nobody ever writes to it again. Each opens it
    // for itself, since those who share an open file share its offset.
    SingleFlight<std::string, Result<Passed>, Fetch> fetches_;
};

}  // namespace holdfast
