// What the kernel knows of: each inode is one version of a file, or one directory, under one path.
//
// Thread-safe; nothing here blocks for longer than a look into a table. An inode lives until the
// kernel has forgotten it as often as it was told of it. Numbers of inodes are never used again.
#pragma once

#include <sys/stat.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/mutex.hpp"
#include "files/messages.hpp"
#include "mount/settings.hpp"

namespace holdfast::mount {

struct MountInode {
    explicit MountInode(const Attributes& attributes) : attributes_(attributes) {}

    std::uint64_t number = 0;
    std::atomic<std::uint64_t> above = 0;  // the number of the directory in which it was found
    std::string path;  // on the shared file system; of a made-up directory: where it would be
    const Root* root = nullptr;  // null: a directory above the roots, which only the mount has
    bool local = false;          // on another file system than its root: agents are not asked
    std::uint64_t space = 0;     // of its file system (settings.hpp)
    std::string target;          // of a link, as the mount shows it
    // The kernel has dropped its name and does not find it by its path, but somebody may be in it.
    std::atomic<bool> nameless = false;
    // Changed so short a time before it was seen that another change may not show in its times.
    bool young = false;

    bool is_made_up() const { return root == nullptr; }
    // As programs see it.
    std::uint64_t shown_inode() const { return number_in(space, attributes().inode); }
    std::string name() const { return path.substr(path.rfind('/') + 1); }

    Attributes attributes() const {
        ReadLock lock(mutex_);
        return attributes_;
    }
    // Only of a directory: a file with other attributes is another version. `refreshes` had been
    // before it was looked at.
    void set(const Attributes& attributes, std::uint64_t refreshes) {
        WriteLock lock(mutex_);
        attributes_ = attributes;
        looked_at_ = refreshes;
    }

    // The refresh of that number makes void what is known of it. Of a file that is so only if it is
    // young: who is told of it from now on gets another number, since under this one the kernel may
    // hold pages of before.
    void outdate(std::uint64_t refresh) {
        if (young || S_ISDIR(attributes().mode)) refreshed_ = refresh;
    }
    bool is_outdated() const { return looked_at_ < refreshed_; }

  private:
    friend class MountInodes;
    mutable SharedMutex mutex_;
    Attributes attributes_ GUARDED_BY(mutex_);
    std::atomic<std::uint64_t> looked_at_ = 0, refreshed_ = 0;
    std::uint64_t lookups_ = 0;  // guarded by the lock of MountInodes
};

using MountInodePtr = std::shared_ptr<MountInode>;

class MountInodes {
  public:
    // The directory that the mount consists of at its top, and those above the roots.
    explicit MountInodes(const Settings& settings);

    // Null if the kernel names one that it has forgotten.
    MountInodePtr find(std::uint64_t number) const;
    // The version of a path that was seen last; null if the kernel knows none.
    MountInodePtr current(const std::string& path) const;

    struct Seen {
        std::string path;
        Attributes attributes;
        std::string target;
        bool local = false;
        bool begins = false;  // a file system, other than that of the directory
    };
    // Of what is seen at a path in a directory.
    std::uint64_t space_of(const MountInode& above, const std::string& path, bool begins) const;
    // The inode for what was seen in a directory, told once more to the kernel.
    MountInodePtr tell(const MountInode& above, Seen seen);
    void forget(std::uint64_t number, std::uint64_t times);

    // All inodes at and below a path, those further down first.
    std::vector<MountInodePtr> below(const std::string& path) const;
    // Names in a made-up directory.
    std::vector<std::string> children(const MountInode& made_up) const;
    std::size_t size() const;

  private:
    MountInodePtr make(const std::string& path, std::uint64_t above) REQUIRES(mutex_);

    const Settings& settings_;
    mutable SharedMutex mutex_;
    std::unordered_map<std::uint64_t, MountInodePtr> by_number_ GUARDED_BY(mutex_);
    std::unordered_map<std::string, MountInodePtr> by_path_ GUARDED_BY(mutex_);
    std::map<std::string, MountInodePtr> made_up_ GUARDED_BY(mutex_);  // by path; the top is ""
    std::uint64_t next_ GUARDED_BY(mutex_) = 1;
};

}  // namespace holdfast::mount
