// Names and attributes, from listings; extended attributes, from the shared file system itself.
#include <sys/xattr.h>

#include <vector>

#include "mount/mount.hpp"

namespace holdfast::mount {

struct stat stat_of(const MountInode& inode) {
    const Attributes attributes = inode.attributes();
    constexpr std::int64_t kSecond = 1'000'000'000;
    auto time = [](std::uint64_t ns) {
        auto value = static_cast<std::int64_t>(ns);
        auto rest = (value % kSecond + kSecond) % kSecond;
        return timespec{(value - rest) / kSecond, static_cast<long>(rest)};
    };
    struct stat info{};
    info.st_mode = attributes.mode;
    info.st_uid = attributes.uid;
    info.st_gid = attributes.gid;
    info.st_nlink = attributes.nlink;
    info.st_ino = number_in(inode.space, attributes.inode);
    info.st_size = static_cast<off_t>(attributes.size);
    info.st_blocks = static_cast<blkcnt_t>(attributes.blocks);
    info.st_atim = time(attributes.atime_ns);
    info.st_mtim = time(attributes.mtime_ns);
    info.st_ctim = time(attributes.ctime_ns);
    return info;
}

fuse_entry_param entry_of(const Mount& mount, const MountInode& inode) {
    fuse_entry_param entry{};
    entry.ino = inode.number;
    entry.attr = stat_of(inode);
    entry.attr_timeout = mount.timeout_of(inode);
    entry.entry_timeout = mount.timeout();
    return entry;
}

namespace {

void look_up(fuse_req_t request, fuse_ino_t number, const char* name) {
    Mount& mount = mount_of(request);
    MountInodePtr above = mount.inodes.find(number);
    if (!above) {
        fuse_reply_err(request, ESTALE);
        return;
    }
    for (;;) {
        auto cache_epoch = mount.cache_epoch.load();
        auto found = mount.look_up(above, name);
        ReadLock lock(mount.answering);
        if (cache_epoch != mount.cache_epoch) {
            if (found.value) mount.inodes.forget(found.value->number, 1);
            continue;
        }
        fuse_entry_param entry{};
        if (found.value)
            entry = entry_of(mount, *found.value);
        else
            entry.entry_timeout = above->nameless ? 0 : mount.timeout();  // it stays missing
        if (!found.value && found.error != ENOENT)
            fuse_reply_err(request, found.error);
        else if (fuse_reply_entry(request, &entry) != 0 && found.value)
            mount.inodes.forget(found.value->number, 1);
        return;
    }
}

void forget(fuse_req_t request, fuse_ino_t number, std::uint64_t times) {
    mount_of(request).inodes.forget(number, times);
    fuse_reply_none(request);
}

void forget_many(fuse_req_t request, size_t count, fuse_forget_data* all) {
    for (std::size_t i = 0; i < count; ++i)
        mount_of(request).inodes.forget(all[i].ino, all[i].nlookup);
    fuse_reply_none(request);
}

void get_attributes(fuse_req_t request, fuse_ino_t number, fuse_file_info*) {
    Mount& mount = mount_of(request);
    MountInodePtr inode = mount.inodes.find(number);
    if (!inode) {
        fuse_reply_err(request, ESTALE);
        return;
    }
    for (;;) {
        auto cache_epoch = mount.cache_epoch.load();
        if (inode->is_outdated()) mount.renew(inode);
        ReadLock lock(mount.answering);
        if (cache_epoch != mount.cache_epoch) continue;
        struct stat info = stat_of(*inode);
        fuse_reply_attr(request, &info, mount.timeout_of(*inode));
        return;
    }
}

void read_link(fuse_req_t request, fuse_ino_t number) {
    MountInodePtr inode = mount_of(request).inodes.find(number);
    if (inode)
        fuse_reply_readlink(request, inode->target.c_str());
    else
        fuse_reply_err(request, ESTALE);
}

void file_system(fuse_req_t request, fuse_ino_t number) {
    Mount& mount = mount_of(request);
    MountInodePtr inode = mount.inodes.find(number);
    struct statvfs found = mount.usage.get(inode ? inode->root : nullptr);
    found.f_flag |= ST_RDONLY | ST_NOSUID;
    fuse_reply_statfs(request, &found);
}

// Answers with what `ask(path, buffer, size)` gives for the original; with its length only, if
// `size` is 0.
template <class Ask>
void reply_extended(fuse_req_t request, fuse_ino_t number, std::size_t size, int none, Ask ask) {
    Mount& mount = mount_of(request);
    MountInodePtr inode = mount.inodes.find(number);
    if (!inode || inode->is_made_up()) {
        if (inode && none == 0 && size == 0)
            fuse_reply_xattr(request, 0);
        else if (inode && none == 0)
            fuse_reply_buf(request, nullptr, 0);
        else
            fuse_reply_err(request, inode ? none : ESTALE);
        return;
    }
    auto fd = open_original(mount.original_path(*inode), O_PATH);
    struct stat info{};
    int error = fd.error;
    if (error == 0 && ::fstat(fd.value.get(), &info) != 0) error = errno;
    if (error == 0 && mount.guard.is_ours(info.st_dev)) error = ELOOP;
    if (error == 0 && info.st_ino != inode->attributes().inode) error = ESTALE;
    if (error != 0) {
        fuse_reply_err(request, error == ENOENT ? ESTALE : error);
        return;
    }
    std::vector<char> buffer(size);
    std::string link = "/proc/self/fd/" + std::to_string(fd.value.get());
    ssize_t length = ask(link.c_str(), size == 0 ? nullptr : buffer.data(), size);
    if (length < 0)
        fuse_reply_err(request, errno);
    else if (size == 0)
        fuse_reply_xattr(request, static_cast<std::size_t>(length));
    else
        fuse_reply_buf(request, buffer.data(), static_cast<std::size_t>(length));
}

void get_extended(fuse_req_t request, fuse_ino_t number, const char* name, size_t size) {
    reply_extended(request, number, size, ENODATA, [&](const char* path, char* out, size_t room) {
        return ::getxattr(path, name, out, room);
    });
}

void list_extended(fuse_req_t request, fuse_ino_t number, size_t size) {
    reply_extended(request, number, size, 0, [](const char* path, char* out, size_t room) {
        return ::listxattr(path, out, room);
    });
}

}  // namespace

void add_name_operations(fuse_lowlevel_ops& operations) {
    operations.lookup = look_up;
    operations.forget = forget;
    operations.forget_multi = forget_many;
    operations.getattr = get_attributes;
    operations.readlink = read_link;
    operations.statfs = file_system;
    operations.getxattr = get_extended;
    operations.listxattr = list_extended;
}

}  // namespace holdfast::mount
