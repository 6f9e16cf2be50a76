// Broadcast: every node ends up with its own copy. A program asks its agent, which asks the agent
// above it in the path's tree (placement/trees.hpp), and so on up to the head, who alone reads the
// shared file system. What comes down is kept at every hop. Files that are too large for that come
// in parts, straight from the head.
//
// A node above that fails leads to the next one above, and after the head to the ring's next owners
// of the path, which stand in for it. One that is slow is asked whether it lives, so that a slow
// shared file system makes nobody read it twice. If all fails: NotCached, and the asker reads the
// shared file system itself.
//
// Thread-safe. handle() does not block. Blocking work runs in lane kTree + hops left, so that waits
// form a DAG and cannot deadlock even when views disagree.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/clock.hpp"
#include "base/mutex.hpp"
#include "base/single_flight.hpp"
#include "base/status.hpp"
#include "files/document.hpp"
#include "files/files.hpp"
#include "files/head.hpp"
#include "files/messages.hpp"
#include "files/trust.hpp"
#include "placement/current_placement.hpp"
#include "rpc/connection_pool.hpp"
#include "rpc/events.hpp"
#include "rpc/handlers.hpp"
#include "store/store.hpp"

namespace holdfast {

struct TreeSettings {
    std::uint32_t degree = 8;
    std::uint64_t largest = 32 << 20;  // larger files come in parts
    Tier tier = Tier::Memory;
    Duration ttl = Duration::max();  // what was seen longer ago is revalidated
    TrustSettings trust = {};
};

struct TreeCounters {
    // Requests answered from here; those that were not, by kind; and those that failed.
    std::atomic<std::uint64_t> hits{0}, files{0}, listings{0}, parts{0}, not_cached{0};
    // Bytes from above and to below, failures of nodes above.
    std::atomic<std::uint64_t> bytes_up{0}, bytes_down{0}, failures{0};
    std::atomic<std::uint64_t> hops{0}, hop_us{0};  // answers from above, and how long they took
    std::atomic<std::uint64_t> depth{0};            // the greatest so far
};

class Tree {
  public:
    Tree(Store& store, Files& files, ConnectionPool& peers, CurrentPlacement& placement,
         Events& events, Incidents& incidents)
        : store_(store),
          files_(files),
          peers_(peers),
          placement_(placement),
          events_(events),
          incidents_(incidents),
          head_(store, files) {}

    void set(const TreeSettings& settings);
    TreeSettings settings() const;
    void add_to(Handlers& handlers);
    Outcome handle(const Request& request);

    // May block: what is asked for, from here or from above.
    Result<Document> obtain(const TreeOrder& order, Duration deadline);

    PlacementPtr placement() const { return placement_.get(); }
    const TreeCounters& counters() const { return counters_; }
    const Head& head() const { return head_; }
    std::uint64_t joined() const { return fetches_.joined() + head_.joined(); }

  private:
    // Who is to be asked, in turn, and how many hops are left.
    struct Way {
        PlacementPtr placement;
        std::vector<std::uint32_t> above;
        std::uint8_t level = 0;  // 0: we read the shared file system
    };
    struct Asked {
        std::uint64_t member;
        const std::string& address;
        Duration left;
        std::uint64_t epoch;  // of the catalogue, before the request was written
    };
    // What an attempt that failed saw of who was asked.
    struct Seen {
        bool began = false;  // to answer
        bool lives = false;  // though it was late
    };
    Result<Way> way(const TreeOrder& order);
    // What was seen of a path and still holds.
    std::optional<Catalog::Known> known(const TreeOrder& order);
    struct Copy {
        Catalog::Known known;
        ObjectPtr object;
    };
    // What is here: no I/O.
    std::optional<Copy> cached(const TreeOrder& order);
    // May block. Only what programs of this node read counts as used: every node below asks once,
    // whatever it is.
    std::optional<Document> open(const Copy& copy, bool counts);
    std::optional<Document> open_cached(const TreeOrder& order, bool counts);
    bool out(const TreeOrder& order, std::uint64_t inode) const;
    Answer serve(const Document& document, bool pass);
    Result<Document> fetch(const TreeOrder& order, const Way& way, Duration deadline);
    Result<Document> find(const TreeOrder& order, const Way& way, Duration deadline);
    Result<Document> ask(const Asked& asked, const TreeOrder& order);
    Result<Document> receive(const Asked& asked, const TreeOrder& order, Seen& seen);
    bool lives(std::uint64_t member, const std::string& address, Duration wait);
    bool keeps(const TreeOrder& order, std::uint64_t size);
    void failed(std::uint64_t member, const std::string& path, const Status& status);

    Store& store_;
    Files& files_;
    ConnectionPool& peers_;
    CurrentPlacement& placement_;
    Events& events_;
    Incidents& incidents_;
    Head head_;
    SingleFlight<std::string, Result<Document>> fetches_;
    TreeCounters counters_;

    mutable Mutex mutex_;
    TreeSettings settings_ GUARDED_BY(mutex_);
    Trust trust_ GUARDED_BY(mutex_);
};

}  // namespace holdfast
