// What is known about a file besides its bytes. All of it is the backing file's, to the inode
// number and the nanosecond, and none of it is ever cached by the kernel.
#include <sys/statvfs.h>
#include <sys/xattr.h>

#include <vector>

#include "countfs/mount.hpp"

namespace holdfast::storage {

namespace {

void reply_attributes(fuse_req_t request, const Inode* inode) {
    struct stat attributes;
    if (::fstatat(inode->fd.get(), "", &attributes, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) != 0)
        return reply(request, -1);
    fuse_reply_attr(request, &attributes, 0);
}

void get(fuse_req_t request, fuse_ino_t number, fuse_file_info*) {
    CountingMount& mount = mount_of(request);
    std::string path = mount.path(number);
    mount.counts.add(path, Event::Getattr);
    mount.storage.throttle.operation();
    if (int error = mount.storage.troubles.meet(request, path, "stat")) {
        fuse_reply_err(request, error);
        return;
    }
    reply_attributes(request, mount.inode(number));
}

timespec wanted_time(int to_set, int now, int given, const timespec& time) {
    if ((to_set & now) != 0) return {0, UTIME_NOW};
    if ((to_set & given) != 0) return time;
    return {0, UTIME_OMIT};
}

void set(fuse_req_t request, fuse_ino_t number, struct stat* wanted, int to_set, fuse_file_info*) {
    const Inode* inode = mount_of(request).inode(number);
    std::string place = by_descriptor(inode);
    if ((to_set & FUSE_SET_ATTR_MODE) != 0 && ::chmod(place.c_str(), wanted->st_mode) != 0)
        return reply(request, -1);
    if ((to_set & (FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID)) != 0) {
        uid_t user = (to_set & FUSE_SET_ATTR_UID) != 0 ? wanted->st_uid : static_cast<uid_t>(-1);
        gid_t group = (to_set & FUSE_SET_ATTR_GID) != 0 ? wanted->st_gid : static_cast<gid_t>(-1);
        if (::fchownat(inode->fd.get(), "", user, group, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) != 0)
            return reply(request, -1);
    }
    if ((to_set & FUSE_SET_ATTR_SIZE) != 0 && ::truncate(place.c_str(), wanted->st_size) != 0)
        return reply(request, -1);
    timespec times[] = {
        wanted_time(to_set, FUSE_SET_ATTR_ATIME_NOW, FUSE_SET_ATTR_ATIME, wanted->st_atim),
        wanted_time(to_set, FUSE_SET_ATTR_MTIME_NOW, FUSE_SET_ATTR_MTIME, wanted->st_mtim)};
    bool any = times[0].tv_nsec != UTIME_OMIT || times[1].tv_nsec != UTIME_OMIT;
    if (any && ::utimensat(AT_FDCWD, place.c_str(), times, 0) != 0) return reply(request, -1);
    reply_attributes(request, inode);
}

void file_system(fuse_req_t request, fuse_ino_t number) {
    struct statvfs found;
    if (::fstatvfs(mount_of(request).inode(number)->fd.get(), &found) != 0)
        return reply(request, -1);
    fuse_reply_statfs(request, &found);
}

// Answers with what `fill(buffer, size)` gives; with its length only, if `size` is 0.
template <class Fill>
void reply_extended(fuse_req_t request, std::size_t size, Fill fill) {
    std::vector<char> buffer(size);
    ssize_t length = fill(size == 0 ? nullptr : buffer.data(), size);
    if (length < 0) return reply(request, length);
    if (size == 0)
        fuse_reply_xattr(request, static_cast<std::size_t>(length));
    else
        fuse_reply_buf(request, buffer.data(), static_cast<std::size_t>(length));
}

std::string place_of(fuse_req_t request, fuse_ino_t number) {
    return by_descriptor(mount_of(request).inode(number));
}

void get_extended(fuse_req_t request, fuse_ino_t number, const char* name, size_t size) {
    reply_extended(request, size, [&](char* buffer, std::size_t room) {
        return ::getxattr(place_of(request, number).c_str(), name, buffer, room);
    });
}

void list_extended(fuse_req_t request, fuse_ino_t number, size_t size) {
    reply_extended(request, size, [&](char* buffer, std::size_t room) {
        return ::listxattr(place_of(request, number).c_str(), buffer, room);
    });
}

void set_extended(fuse_req_t request, fuse_ino_t number, const char* name, const char* value,
                  size_t size, int flags) {
    reply(request, ::setxattr(place_of(request, number).c_str(), name, value, size, flags));
}

void remove_extended(fuse_req_t request, fuse_ino_t number, const char* name) {
    reply(request, ::removexattr(place_of(request, number).c_str(), name));
}

}  // namespace

void add_attribute_operations(fuse_lowlevel_ops& operations) {
    operations.getattr = get;
    operations.setattr = set;
    operations.statfs = file_system;
    operations.getxattr = get_extended;
    operations.listxattr = list_extended;
    operations.setxattr = set_extended;
    operations.removexattr = remove_extended;
}

}  // namespace holdfast::storage
