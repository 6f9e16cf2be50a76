// The files that the kernel knows of, each with a descriptor that survives renames and removal.
//
// Thread-safe. An inode lives until the kernel has forgotten it as often as it was looked up; the
// kernel names it by its address, and names none that it has forgotten.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "base/fd.hpp"

namespace holdfast::storage {

using FileId = std::pair<dev_t, ino_t>;

struct Inode {
    Fd fd;  // O_PATH
    FileId id;
    std::string path;  // by which it was looked up last: a file may have several
    std::uint64_t lookups = 0;
};

class Inodes {
  public:
    // `path` is where `fd` was found.
    Inode* look_up(Fd fd, const struct stat& attributes, std::string path) {
        FileId id{attributes.st_dev, attributes.st_ino};
        std::lock_guard lock(mutex_);
        Inode& inode = by_id_[id];
        if (!inode.fd) {
            inode.fd = std::move(fd);
            inode.id = id;
        }
        inode.path = std::move(path);
        ++inode.lookups;
        return &inode;
    }

    void forget(Inode* inode, std::uint64_t lookups) {
        std::lock_guard lock(mutex_);
        if ((inode->lookups -= lookups) == 0) by_id_.erase(inode->id);
    }

    std::string path(const Inode* inode) const {
        std::lock_guard lock(mutex_);
        return inode->path;
    }

  private:
    mutable std::mutex mutex_;
    std::map<FileId, Inode> by_id_;
};

}  // namespace holdfast::storage
