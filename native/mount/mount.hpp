// The mount: what the kernel asks, answered from listings, copies and, failing these, the shared
// file system itself.
//
// Thread-safe. What fetches may block for as long as agent and shared file system take. It must
// live until the process ends. The operations are in fuse_directories.cpp, fuse_files.cpp and
// fuse_names.cpp.
#pragma once

#define FUSE_USE_VERSION 314
#include <fuse3/fuse_lowlevel.h>

#include <atomic>
#include <deque>
#include <set>

#include "base/mutex.hpp"
#include "mount/agent_reader.hpp"
#include "mount/cache.hpp"
#include "mount/fs_usage.hpp"
#include "mount/inodes.hpp"
#include "mount/original.hpp"

namespace holdfast::mount {

// What a read is answered from.
struct Opened {
    Fd fd;
    std::uint64_t begin = 0;  // where in the file its content begins
    bool original = false;    // not a copy: it may change under our hands
};
using OpenedPtr = std::shared_ptr<const Opened>;

struct KnownListing {
    Listing listing;
    BootTime since;
};
using KnownListingPtr = std::shared_ptr<const KnownListing>;

struct Counters {
    std::atomic<std::uint64_t> requests{0}, listings{0}, listings_read{0}, files{0}, files_read{0},
        bytes{0}, stale{0};
};

class Mount {
  public:
    Mount(const Settings& settings, const Guard& guard);
    Mount(const Mount&) = delete;
    Mount& operator=(const Mount&) = delete;

    // Through which the kernel is told what is no longer so; before the first request.
    void attach(fuse_session* session) { session_ = session; }

    // The content of a directory, from the agent or read here; null, and the error, if that failed.
    KnownListingPtr listing(const MountInodePtr& inode, int& error);
    // Looks at a directory again after a refresh.
    void renew(const MountInodePtr& inode);
    // Finds a name and tells the kernel's count of it.
    OriginalResult<MountInodePtr> look_up(const MountInodePtr& above, const std::string& name);
    // An entry of a listing as an inode; null if it must be looked up by itself.
    MountInodePtr inode_of(const MountInode& above, const Listing& listing, const Entry& entry);

    static constexpr std::uint32_t kWhole = 0xffff'ffff;
    // A file's copy or one part of it; the original itself if there is no copy.
    OpenedPtr open(const MountInodePtr& inode, std::uint32_t part, int& error);
    bool comes_in_parts(const MountInode& inode, std::uint64_t size) const;

    // A file turned out not to be what its listing says: its name is looked at by itself from now.
    void doubt(const MountInode& inode);
    // Everything at and below a path is revalidated, also by the kernel. Blocks until done.
    void refresh(const std::string& path);
    // Lets go of descriptors and listings that nobody needs, now and then; never returns.
    void sweep();

    // Answers from what was known when `cache_epoch` was read are given under this lock, and only
    // if it is the same still: what a refresh has made void never reaches the kernel after it.
    SharedMutex answering;
    std::atomic<std::uint64_t> cache_epoch{0};

    // How long the kernel may believe in names, and in the attributes of an inode.
    double timeout() const { return timeout_; }
    double timeout_of(const MountInode& inode) const { return inode.is_outdated() ? 0 : timeout_; }
    std::string original_path(const MountInode& inode) const;

    // Whether the kernel stops asking to open files and directories once it is told so.
    std::atomic<bool> opens_itself{false}, opens_directories_itself{false};

    const Settings& settings;
    const Guard& guard;
    MountInodes inodes;
    FsUsage usage;
    Counters counters;

  private:
    KnownListingPtr fetch_listing(MountInode& inode, std::uint64_t& weight, int& error);
    OpenedPtr fetch_file(const MountInode& inode, std::uint32_t part, std::uint64_t& weight,
                         int& error);
    OriginalResult<MountInodePtr> look_up_itself(const MountInode& above, const std::string& path,
                                                 bool local);
    bool is_doubted(const std::string& path);
    void invalidate(const std::string& path);
    void invalidate_doubted();

    fuse_session* session_ = nullptr;
    AgentReader agent_;
    Cache<std::uint64_t, KnownListing> listings_;
    Cache<std::pair<std::uint64_t, std::uint32_t>, Opened> opened_;
    const std::uint64_t least_weight_;
    const double timeout_;
    Mutex mutex_;
    Condition more_doubted_;
    std::set<std::string> doubted_ GUARDED_BY(mutex_);
    std::deque<std::string> to_invalidate_ GUARDED_BY(mutex_);
};

inline Mount& mount_of(fuse_req_t request) {
    return *static_cast<Mount*>(fuse_req_userdata(request));
}
struct stat stat_of(const MountInode& inode);
fuse_entry_param entry_of(const Mount& mount, const MountInode& inode);

void add_name_operations(fuse_lowlevel_ops& operations);
void add_directory_operations(fuse_lowlevel_ops& operations);
void add_reading_operations(fuse_lowlevel_ops& operations);

}  // namespace holdfast::mount
