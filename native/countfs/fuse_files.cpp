// Open files and directories.
//
// The kernel's cache of a file is dropped at each open, so every open and the reads after it are
// seen here; what is read twice through one descriptor, or mapped, may come from the cache.
#include <dirent.h>

#include <vector>

#include "countfs/mount.hpp"

namespace holdfast::storage {

namespace {

struct File {
    Fd fd;
    std::string path;  // by which it was opened
};

struct Directory {
    ~Directory() { ::closedir(stream); }
    DIR* stream;
    off_t position = 0;
    std::mutex mutex;
};

File* file(const fuse_file_info* info) {
    return reinterpret_cast<File*>(info->fh);
}
int descriptor(const fuse_file_info* info) {
    return file(info)->fd.get();
}

// Counts an open, takes the time it takes, and returns the error that it meets.
int begin_open(fuse_req_t request, const std::string& path) {
    CountingMount& mount = mount_of(request);
    mount.counts.add(path, Event::Open);
    mount.storage.throttle.operation();
    mount.storage.throttle.open();
    return mount.storage.troubles.meet(request, path, "open");
}

// Direct I/O would need aligned buffers here, and is none of the backing files' business.
int flags_of(const fuse_file_info* info) {
    return (info->flags & ~(O_NOFOLLOW | O_DIRECT)) | O_CLOEXEC;
}

void open(fuse_req_t request, fuse_ino_t number, fuse_file_info* info) {
    CountingMount& mount = mount_of(request);
    std::string path = mount.path(number);
    if (int error = begin_open(request, path)) {
        fuse_reply_err(request, error);
        return;
    }
    Fd fd(::open(by_descriptor(mount.inode(number)).c_str(), flags_of(info)));
    if (!fd) return reply(request, -1);
    auto opened = std::make_unique<File>(std::move(fd), std::move(path));
    info->fh = reinterpret_cast<std::uint64_t>(opened.get());
    // A caller that gave up waiting sends no release.
    if (fuse_reply_open(request, info) == 0) opened.release();
}

void create(fuse_req_t request, fuse_ino_t parent, const char* name, mode_t mode,
            fuse_file_info* info) {
    CountingMount& mount = mount_of(request);
    std::string path = mount.path(parent, name);
    int error = begin_open(request, path);
    Fd fd;
    if (error == 0) {
        int directory = mount.inode(parent)->fd.get();
        fd = Fd(::openat(directory, name, flags_of(info) | O_CREAT | O_EXCL, mode));
        if (fd) {
            error = give_to_caller(request, mount.inode(parent), name);
        } else if (errno == EEXIST && (info->flags & O_EXCL) == 0) {
            fd = Fd(::openat(directory, name, (flags_of(info) & ~O_CREAT) | O_NOFOLLOW));
        }
        if (!fd) error = errno;
    }
    fuse_entry_param entry{};
    if (error == 0) error = look_up(mount, parent, name, entry);
    if (error != 0) {
        fuse_reply_err(request, error);
        return;
    }
    auto opened = std::make_unique<File>(std::move(fd), std::move(path));
    info->fh = reinterpret_cast<std::uint64_t>(opened.get());
    if (fuse_reply_create(request, &entry, info) == 0) opened.release();
}

void read(fuse_req_t request, fuse_ino_t, size_t size, off_t offset, fuse_file_info* info) {
    CountingMount& mount = mount_of(request);
    const std::string& path = file(info)->path;
    mount.counts.add(path, Event::Read);
    mount.storage.throttle.operation();
    if (int error = mount.storage.troubles.meet(request, path, "read")) {
        fuse_reply_err(request, error);
        return;
    }
    thread_local std::vector<char> buffer;
    if (buffer.size() < size) buffer.resize(size);
    ssize_t count = ::pread(descriptor(info), buffer.data(), size, offset);
    if (count < 0) return reply(request, count);
    mount.counts.add(path, Event::Byte, static_cast<std::uint64_t>(count));
    mount.storage.throttle.read(static_cast<std::size_t>(count));
    fuse_reply_buf(request, buffer.data(), static_cast<std::size_t>(count));
}

void write(fuse_req_t request, fuse_ino_t, const char* bytes, size_t size, off_t offset,
           fuse_file_info* info) {
    CountingMount& mount = mount_of(request);
    if (int error = mount.storage.troubles.meet(request, file(info)->path, "write")) {
        fuse_reply_err(request, error);
        return;
    }
    ssize_t count = ::pwrite(descriptor(info), bytes, size, offset);
    if (count < 0) return reply(request, count);
    fuse_reply_write(request, static_cast<std::size_t>(count));
}

void seek(fuse_req_t request, fuse_ino_t, off_t offset, int whence, fuse_file_info* info) {
    off_t found = ::lseek(descriptor(info), offset, whence);
    if (found < 0) return reply(request, found);
    fuse_reply_lseek(request, found);
}

void allocate(fuse_req_t request, fuse_ino_t, int mode, off_t offset, off_t length,
              fuse_file_info* info) {
    reply(request, ::fallocate(descriptor(info), mode, offset, length));
}

void sync(fuse_req_t request, fuse_ino_t, int data_only, fuse_file_info* info) {
    reply(request, data_only ? ::fdatasync(descriptor(info)) : ::fsync(descriptor(info)));
}

void release(fuse_req_t request, fuse_ino_t, fuse_file_info* info) {
    delete file(info);
    fuse_reply_err(request, 0);
}

Directory* directory(const fuse_file_info* info) {
    return reinterpret_cast<Directory*>(info->fh);
}

void open_directory(fuse_req_t request, fuse_ino_t number, fuse_file_info* info) {
    CountingMount& mount = mount_of(request);
    mount.counts.add(mount.path(number), Event::Listing);
    mount.storage.throttle.operation();
    DIR* stream = ::opendir(by_descriptor(mount.inode(number)).c_str());
    if (stream == nullptr) return reply(request, -1);
    auto opened = std::make_unique<Directory>(stream);
    info->fh = reinterpret_cast<std::uint64_t>(opened.get());
    if (fuse_reply_open(request, info) == 0) opened.release();
}

// Fills `buffer` with entries from `offset` on; returns how many bytes, or -1.
ssize_t list(fuse_req_t request, Directory& listed, off_t offset, std::vector<char>& buffer) {
    std::lock_guard lock(listed.mutex);
    if (offset != listed.position) ::seekdir(listed.stream, offset);
    listed.position = offset;
    std::size_t used = 0;
    errno = 0;
    while (const dirent* entry = ::readdir(listed.stream)) {
        struct stat attributes{};
        attributes.st_ino = entry->d_ino;
        attributes.st_mode = DTTOIF(static_cast<mode_t>(entry->d_type));
        std::size_t room = buffer.size() - used;
        std::size_t needed = fuse_add_direntry(request, buffer.data() + used, room, entry->d_name,
                                               &attributes, entry->d_off);
        if (needed > room) {
            ::seekdir(listed.stream, listed.position);  // the next call begins with this one
            return static_cast<ssize_t>(used);
        }
        used += needed;
        listed.position = entry->d_off;
    }
    return used == 0 && errno != 0 ? -1 : static_cast<ssize_t>(used);
}

void read_directory(fuse_req_t request, fuse_ino_t, size_t size, off_t offset,
                    fuse_file_info* info) {
    std::vector<char> buffer(size);
    ssize_t used = list(request, *directory(info), offset, buffer);
    if (used < 0) return reply(request, used);
    // From the answer on the kernel may release the directory: it is not touched again.
    fuse_reply_buf(request, buffer.data(), static_cast<std::size_t>(used));
}

void sync_directory(fuse_req_t request, fuse_ino_t, int, fuse_file_info* info) {
    reply(request, ::fsync(::dirfd(directory(info)->stream)));
}

void release_directory(fuse_req_t request, fuse_ino_t, fuse_file_info* info) {
    delete directory(info);
    fuse_reply_err(request, 0);
}

}  // namespace

void add_file_operations(fuse_lowlevel_ops& operations) {
    operations.open = open;
    operations.create = create;
    operations.read = read;
    operations.write = write;
    operations.lseek = seek;
    operations.fallocate = allocate;
    operations.fsync = sync;
    operations.release = release;
    operations.opendir = open_directory;
    operations.readdir = read_directory;
    operations.fsyncdir = sync_directory;
    operations.releasedir = release_directory;
}

}  // namespace holdfast::storage
