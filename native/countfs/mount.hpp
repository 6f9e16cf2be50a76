// One place where the storage is to be seen, with counts of its own.
//
// A mount serves requests until the process ends, so it must live as long. It has threads of its
// own, some of which sleep, as throttles and troubles want it; what they do is in
// fuse_attributes.cpp, fuse_files.cpp and fuse_names.cpp.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "countfs/counts.hpp"
#include "countfs/inodes.hpp"
#include "countfs/throttle.hpp"
#include "countfs/troubles.hpp"

namespace holdfast::storage {

// What all mounts have in common.
struct Storage {
    Fd root;
    Throttle throttle;
    Troubles troubles;
};

class CountingMount {
  public:
    CountingMount(Storage& common, const std::string& point);
    CountingMount(const CountingMount&) = delete;
    CountingMount& operator=(const CountingMount&) = delete;

    // Makes it visible, in a directory of its own making if there is none; false if that failed.
    bool start();
    // Leaves nothing of it in sight. Who still has it open may go on, as long as we do.
    void unmount() const;

    Inode* inode(fuse_ino_t number) {
        return number == FUSE_ROOT_ID ? &root_ : reinterpret_cast<Inode*>(number);
    }
    // The path of an inode, or of a name in a directory.
    std::string path(fuse_ino_t number) { return inodes.path(inode(number)); }
    std::string path(fuse_ino_t parent, const char* name);

    Storage& storage;
    Counts counts;
    Inodes inodes;

  private:
    void serve();

    const std::string point_;
    bool made_ = false;  // the mount point
    Inode root_;
    fuse_session* session_ = nullptr;
};

inline CountingMount& mount_of(fuse_req_t request) {
    return *static_cast<CountingMount*>(fuse_req_userdata(request));
}

// By which the system calls that take no O_PATH descriptor find an inode.
inline std::string by_descriptor(const Inode* inode) {
    return "/proc/self/fd/" + std::to_string(inode->fd.get());
}

// Answers with what a system call has just returned: done, or failed.
inline void reply(fuse_req_t request, long result) {
    fuse_reply_err(request, result < 0 ? errno : 0);
}

void add_file_operations(fuse_lowlevel_ops& operations);
void add_attribute_operations(fuse_lowlevel_ops& operations);
void add_name_operations(fuse_lowlevel_ops& operations);
// Looks a name up and fills in what the kernel is to know; returns 0 or an error.
int look_up(CountingMount& mount, fuse_ino_t parent, const char* name, fuse_entry_param& entry);
// Gives a new file to who asked for it, as the kernel would have done; returns 0 or an error.
int give_to_caller(fuse_req_t request, const Inode* parent, const char* name);

}  // namespace holdfast::storage
