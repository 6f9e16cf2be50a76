// Names: finding, making, moving and removing them. The kernel remembers none of them, so that
// what happens behind its back, e.g. through another mount, is seen at once.
#include <cstdio>
#include <vector>

#include "countfs/mount.hpp"

namespace holdfast::storage {

int look_up(CountingMount& mount, fuse_ino_t parent, const char* name, fuse_entry_param& entry) {
    Fd fd(::openat(mount.inode(parent)->fd.get(), name, O_PATH | O_NOFOLLOW | O_CLOEXEC));
    if (!fd) return errno;
    if (::fstatat(fd.get(), "", &entry.attr, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) != 0)
        return errno;
    Inode* inode = mount.inodes.look_up(std::move(fd), entry.attr, mount.path(parent, name));
    entry.ino = reinterpret_cast<fuse_ino_t>(inode);
    return 0;
}

int give_to_caller(fuse_req_t request, const Inode* parent, const char* name) {
    const fuse_ctx* caller = fuse_req_ctx(request);
    if (caller->uid == 0 && caller->gid == 0) return 0;  // as we are
    struct stat directory;
    if (::fstatat(parent->fd.get(), "", &directory, AT_EMPTY_PATH) != 0) return errno;
    bool inherits = (directory.st_mode & S_ISGID) != 0;
    gid_t group = inherits ? static_cast<gid_t>(-1) : caller->gid;
    int done = ::fchownat(parent->fd.get(), name, caller->uid, group, AT_SYMLINK_NOFOLLOW);
    return done == 0 ? 0 : errno;
}

namespace {

void reply_entry(fuse_req_t request, fuse_ino_t parent, const char* name) {
    fuse_entry_param entry{};
    if (int error = look_up(mount_of(request), parent, name, entry))
        fuse_reply_err(request, error);
    else
        fuse_reply_entry(request, &entry);
}

// Answers for a name that a call has just made, or failed to.
void reply_made(fuse_req_t request, int result, fuse_ino_t parent, const char* name) {
    if (result != 0) return reply(request, result);
    if (int error = give_to_caller(request, mount_of(request).inode(parent), name))
        fuse_reply_err(request, error);
    else
        reply_entry(request, parent, name);
}

int descriptor(fuse_req_t request, fuse_ino_t number) {
    return mount_of(request).inode(number)->fd.get();
}

void find(fuse_req_t request, fuse_ino_t parent, const char* name) {
    CountingMount& mount = mount_of(request);
    std::string path = mount.path(parent, name);
    mount.counts.add(path, Event::Lookup);
    mount.storage.throttle.operation();
    if (int error = mount.storage.troubles.meet(request, path, "stat"))
        fuse_reply_err(request, error);
    else
        reply_entry(request, parent, name);
}

void forget(fuse_req_t request, fuse_ino_t number, std::uint64_t lookups) {
    CountingMount& mount = mount_of(request);
    if (number != FUSE_ROOT_ID) mount.inodes.forget(mount.inode(number), lookups);
    fuse_reply_none(request);
}

void make_node(fuse_req_t request, fuse_ino_t parent, const char* name, mode_t mode, dev_t device) {
    reply_made(request, ::mknodat(descriptor(request, parent), name, mode, device), parent, name);
}

void make_directory(fuse_req_t request, fuse_ino_t parent, const char* name, mode_t mode) {
    reply_made(request, ::mkdirat(descriptor(request, parent), name, mode), parent, name);
}

void make_symlink(fuse_req_t request, const char* target, fuse_ino_t parent, const char* name) {
    reply_made(request, ::symlinkat(target, descriptor(request, parent), name), parent, name);
}

void make_link(fuse_req_t request, fuse_ino_t number, fuse_ino_t parent, const char* name) {
    if (::linkat(descriptor(request, number), "", descriptor(request, parent), name,
                 AT_EMPTY_PATH) != 0)
        return reply(request, -1);
    reply_entry(request, parent, name);
}

void read_link(fuse_req_t request, fuse_ino_t number) {
    char target[PATH_MAX + 1];
    ssize_t length = ::readlinkat(descriptor(request, number), "", target, PATH_MAX);
    if (length < 0) return reply(request, length);
    target[length] = '\0';
    fuse_reply_readlink(request, target);
}

void remove_file(fuse_req_t request, fuse_ino_t parent, const char* name) {
    reply(request, ::unlinkat(descriptor(request, parent), name, 0));
}

void remove_directory(fuse_req_t request, fuse_ino_t parent, const char* name) {
    reply(request, ::unlinkat(descriptor(request, parent), name, AT_REMOVEDIR));
}

void rename(fuse_req_t request, fuse_ino_t parent, const char* name, fuse_ino_t new_parent,
            const char* new_name, unsigned flags) {
    reply(request, ::renameat2(descriptor(request, parent), name, descriptor(request, new_parent),
                               new_name, flags));
}

}  // namespace

void add_name_operations(fuse_lowlevel_ops& operations) {
    operations.lookup = find;
    operations.forget = forget;
    operations.mknod = make_node;
    operations.mkdir = make_directory;
    operations.symlink = make_symlink;
    operations.link = make_link;
    operations.readlink = read_link;
    operations.unlink = remove_file;
    operations.rmdir = remove_directory;
    operations.rename = rename;
}

}  // namespace holdfast::storage
