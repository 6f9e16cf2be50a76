// The owner's side of cached files (rule 12): a file is served from the copy here, or read from the
// shared file system once, served meanwhile and kept. Whatever is not a plain regular file of
// reasonable size ends as NotCached, and its reader opens the original. Thread-safe.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <variant>

#include "files/catalog.hpp"
#include "files/fill.hpp"
#include "files/invalidated_paths.hpp"
#include "files/messages.hpp"
#include "files/refreshes.hpp"
#include "placement/current_placement.hpp"
#include "rpc/connection_pool.hpp"
#include "rpc/handlers.hpp"
#include "rpc/incidents.hpp"
#include "rpc/pool.hpp"
#include "store/store.hpp"

namespace holdfast {

// A file as it can be had here: stored, or on its way.
struct FileCopy {
    Attributes attributes;
    ObjectPtr object;
    Fd file;  // of the object
    std::shared_ptr<Fill> growing;
};

// What is sent of a file.
struct FilePiece {
    FileSlice slice;
    std::uint32_t crc = 0;
};

// Files that changed a moment ago: read although they are not kept, or passed over.
enum class Young { Read, PassedOver };

class Files {
  public:
    Files(Store& store, CurrentPlacement& placement, Incidents& incidents, Pool& pool);

    void add_to(Handlers& handlers);
    Outcome read(const Request& request);
    Outcome attributes(const Request& request);
    // As read, but nothing is sent: for those who fill the cache ahead.
    Outcome warm(const Request& request);

    // What is stored here and known to be current, its file not yet open: no I/O.
    std::optional<FileCopy> cached(const FileOrder& order);
    // Opens the file of a copy; false if it is gone.
    bool open(FileCopy& copy);
    // May block: looks at the shared file system if there is a copy, and gives it if it is current.
    Result<FileCopy> validated(const FileOrder& order);
    // May block: looks at the shared file system, and reads the file unless it is stored.
    Result<FileCopy> fetch(const FileOrder& order, Duration deadline, Young young = Young::Read);

    // May block: the part of a file on its way that is wanted, as soon as it has come. NotCached if
    // it does not, or if the file is not what it was.
    Result<FilePiece> part(const FileOrder& order, const FileCopy& copy, Duration deadline);

    // Counts a failure for want of room; gives what its asker hears of it.
    Status left_to_source(const Status& failure);

    // May block: the file as the shared file system has it now, if it may be cached.
    Result<Place> current(const FileOrder& order);

    Catalog& catalog() { return catalog_; }
    // What is known of what trees bring: files and directories.
    Catalog& tree_catalog() { return tree_catalog_; }
    // Everything is revalidated before it is next served: this node was away.
    void distrust();
    // This node hears what others say. If it is not said again within that time, by the clock that
    // also counts sleep, it was away.
    void hear_for(Duration time);
    // To be called before what is known is used: distrusts it if we were away.
    void distrust_if_away();
    const InvalidatedPaths& invalidated() const { return invalidated_; }
    // May block: NotCached if symbolic links on the way to a path were changed, or what they lead
    // to. To be called after the path was resolved.
    Status check_way(const std::string& root, const std::string& path);
    // May block: somebody changes it, so it is out of the cache from now on. Gives the notices
    // that say so, for the other members.
    std::vector<std::string> invalidate(const std::string& path);
    // May block: another member says so. Gives the notice that invalidates the path here, if not
    // that one: we know of a refresh that the other has not heard of.
    std::string hear_invalidation(const std::string& notice);
    // Makes known what is said of paths.
    void learn(const std::vector<std::string>& notices);
    // Forgets what is known of paths and all below them, which may be cached again, and says so to
    // all members by a notice; gives of how many files something was known.
    std::size_t refresh(const std::vector<std::string>& paths, std::uint64_t number);
    // Another member knows of this refresh.
    void heard_of(std::uint64_t number);
    const Refreshes& refreshes() const { return refreshes_; }
    // Called with a path when a refresh of it was learnt of from other members, and not by
    // refresh(); must not block.
    void watch_refreshes(std::function<void(const std::string&)> watch) {
        watch_ = std::move(watch);
    }

    struct Counters {
        // Reads served from copies, and of all reads those of programs here and of other nodes.
        std::atomic<std::uint64_t> hits{0}, local{0}, remote{0};
        std::atomic<std::uint64_t> not_cached{0}, changed{0};
        // For want of room in both tiers, what was asked for is left to the shared file system.
        std::atomic<std::uint64_t> no_room{0};
    };
    const Counters& counters() const { return counters_; }
    const Fills::Counters& fill_counters() const { return fills_.counters(); }
    std::uint64_t fills_joined() const { return fills_.joined(); }

  private:
    // A new notice of its topic; give those that are to be forgotten.
    std::vector<std::string> path_learnt(const std::string& notice);
    std::vector<std::string> refresh_learnt(const std::string& notice);
    std::size_t refresh(const std::string& path);
    Result<FileCopy> fetch_once(const FileOrder& order, Duration deadline, Young young);
    Status fence(const FileOrder& order) const;
    // The size of the largest file to be cached; a quarter of the tier unless it is set.
    std::uint64_t limit(const FileOrder& order);
    // Drops all other versions than `key` that are stored here.
    std::vector<Notice> others(const FileOrder& order, const std::string& key);
    Answer serve(const FileOrder& order, FileCopy copy);
    Answer fetch_and_serve(const FileOrder& order, Duration deadline);
    Answer counted(Status failure);

    Store& store_;
    CurrentPlacement& placement_;
    Incidents& incidents_;
    Fills fills_;
    Catalog catalog_, tree_catalog_;
    InvalidatedPaths invalidated_;
    Refreshes refreshes_;
    std::atomic<Duration> heard_for_{Duration::zero()};  // zero: it was never said
    std::atomic<BootTime> hears_until_{BootTime::max()};
    std::atomic<std::uint64_t> told_{0};  // the refresh of which we were told last
    std::function<void(const std::string&)> watch_;
    Counters counters_;
};

// For readers whose file came damaged: the agent that sent it looks at its copy again, and gives it
// up if it is bad. `meta` is that of its answer.
void verify_copy(ConnectionPool& pool, const std::string& address, const FileOrder& order,
                 const std::string& meta, Duration deadline);

}  // namespace holdfast
