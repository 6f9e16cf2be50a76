// Files: whole copies, parts of large ones, or the original. What is answered belongs to the
// inode's version or is an error; never to another one, and never shorter than it must be, since
// the kernel would take a short answer for the end of the file.
#include <algorithm>

#include "base/scratch.hpp"
#include "mount/mount.hpp"

namespace holdfast::mount {
namespace {

// Exactly these bytes of the file; else an error.
int read_exactly(const Opened& from, std::uint64_t offset, std::size_t size, char* out) {
    for (std::size_t done = 0; done < size;) {
        ssize_t more = ::pread(from.fd.get(), out + done, size - done,
                               static_cast<off_t>(offset - from.begin + done));
        if (more < 0 && errno == EINTR) continue;
        if (more < 0) return errno;
        if (more == 0) return ESTALE;
        done += static_cast<std::size_t>(more);
    }
    return 0;
}

// From the copy, or from one part of it.
int read_piece(Mount& mount, const MountInodePtr& inode, const Identity& version,
               std::uint32_t part, std::uint64_t offset, std::size_t size, char* out) {
    int error = 0;
    OpenedPtr from = mount.open(inode, part, error);
    if (!from) return error;
    error = read_exactly(*from, offset, size, out);
    // Looked at after the bytes were read: had it been written to before, this would show it.
    if (error == 0 && from->original && !is_version(from->fd.get(), version)) error = ESTALE;
    if (error == ESTALE) mount.doubt(*inode);
    return error;
}

int read_parts(Mount& mount, const MountInodePtr& inode, const Identity& version,
               std::uint64_t offset, std::size_t size, char* out) {
    while (size > 0) {
        auto part = offset / kPartBytes;
        auto piece = std::min<std::uint64_t>(size, (part + 1) * kPartBytes - offset);
        int error =
            read_piece(mount, inode, version, static_cast<std::uint32_t>(part), offset, piece, out);
        if (error != 0) return error;
        offset += piece;
        out += piece;
        size -= piece;
    }
    return 0;
}

void read(fuse_req_t request, fuse_ino_t number, size_t size, off_t offset, fuse_file_info*) {
    Mount& mount = mount_of(request);
    MountInodePtr inode = mount.inodes.find(number);
    if (!inode || inode->is_made_up()) {
        fuse_reply_err(request, inode ? EISDIR : ESTALE);
        return;
    }
    Attributes file = inode->attributes();
    auto begin = static_cast<std::uint64_t>(offset);
    size = begin >= file.size ? 0 : std::min<std::uint64_t>(size, file.size - begin);
    Scratch out(size);
    int error = 0;
    if (size > 0)
        error =
            mount.comes_in_parts(*inode, file.size)
                ? read_parts(mount, inode, file.identity(), begin, size, out.data())
                : read_piece(mount, inode, file.identity(), Mount::kWhole, begin, size, out.data());
    if (error != 0) {
        fuse_reply_err(request, error);
        return;
    }
    mount.counters.bytes += size;
    fuse_reply_buf(request, out.data(), size);
}

// Holes are where the original has them. A file that fills its blocks has none, and one that
// cannot be asked is data throughout: then nobody skips what is there, and whoever looks for the
// next hole finds the end.
void seek(fuse_req_t request, fuse_ino_t number, off_t offset, int whence, fuse_file_info*) {
    Mount& mount = mount_of(request);
    MountInodePtr inode = mount.inodes.find(number);
    if (!inode || inode->is_made_up() || (whence != SEEK_DATA && whence != SEEK_HOLE)) {
        fuse_reply_err(request, inode ? EINVAL : ESTALE);
        return;
    }
    Attributes file = inode->attributes();
    auto end = static_cast<off_t>(file.size);
    if (offset < 0 || offset >= end) {
        fuse_reply_err(request, ENXIO);
        return;
    }
    off_t found = whence == SEEK_DATA ? offset : end;
    if (file.blocks * 512 < file.size) {
        auto original = open_version(mount.original_path(*inode), file.identity(), mount.guard);
        if (original.error == 0) {
            off_t there = ::lseek(original.value.get(), offset, whence);
            int error = there < 0 ? errno : 0;
            if (is_version(original.value.get(), file.identity())) {
                if (error == ENXIO) {
                    fuse_reply_err(request, error);
                    return;
                }
                if (error == 0) found = there;
            }
        }
    }
    fuse_reply_lseek(request, found);
}

void open(fuse_req_t request, fuse_ino_t, fuse_file_info* info) {
    if (mount_of(request).opens_itself) {
        fuse_reply_err(request, ENOSYS);
        return;
    }
    info->keep_cache = 1;
    fuse_reply_open(request, info);
}

}  // namespace

void add_reading_operations(fuse_lowlevel_ops& operations) {
    operations.open = open;
    operations.read = read;
    operations.lseek = seek;
}

}  // namespace holdfast::mount
