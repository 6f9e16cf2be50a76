// What is asked of a descriptor and only the original can answer: by its name, or, where that is
// not enough, by putting the original in the copy's place.
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "preload/shim.h"

// ---- by name ---------------------------------------------------------------------------------

#define BY_NAME(result, name, by_name, parameters, by_descriptor, arguments)   \
    HF_NEXT(name);                                                             \
    HF_PUBLIC result name parameters {                                         \
        struct hf_entry original;                                              \
        if (!hf_copy_behind(file, &original)) return NEXT(name) by_descriptor; \
        const char* path = original.path;                                      \
        return by_name arguments;                                              \
    }

BY_NAME(ssize_t, fgetxattr, getxattr, (int file, const char* name, void* value, size_t size),
        (file, name, value, size), (path, name, value, size))
BY_NAME(ssize_t, flistxattr, listxattr, (int file, char* names, size_t size), (file, names, size),
        (path, names, size))
BY_NAME(int, fstatvfs, statvfs, (int file, struct statvfs* out), (file, out), (path, out))
BY_NAME(int, fstatfs, statfs, (int file, struct statfs* out), (file, out), (path, out))
HF_PUBLIC int fstatvfs64(int file, struct statvfs64* out) __attribute__((alias("fstatvfs")));
HF_PUBLIC int fstatfs64(int file, struct statfs64* out) __attribute__((alias("fstatfs")));

// Those that change it are also ours by name, so the path is invalidated.
BY_NAME(int, fchmod, chmod, (int file, mode_t mode), (file, mode), (path, mode))
BY_NAME(int, fchown, chown, (int file, uid_t user, gid_t group), (file, user, group),
        (path, user, group))
BY_NAME(int, fsetxattr, setxattr,
        (int file, const char* name, const void* value, size_t size, int flags),
        (file, name, value, size, flags), (path, name, value, size, flags))
BY_NAME(int, fremovexattr, removexattr, (int file, const char* name), (file, name), (path, name))
BY_NAME(int, futimes, utimes, (int file, const struct timeval times[2]), (file, times),
        (path, times))
BY_NAME(int, futimens, utimensat, (int file, const struct timespec times[2]), (file, times),
        (AT_FDCWD, path, times, 0))

// ---- the original in its place ---------------------------------------------------------------

// Files of which this process holds locks: whoever closes any descriptor of one gives up all that
// the process has. By a hash; a wrong guess costs a descriptor.
static _Atomic uint8_t locked[4096];
static _Atomic bool any_locked;

static _Atomic uint8_t* lock_mark(const struct hf_entry* original) {
    uint64_t mixed = (original->inode + original->device) * UINT64_C(0x9e3779b97f4a7c15);
    return &locked[mixed >> 52];
}

void hf_mark(const struct hf_entry* original) {
    *lock_mark(original) = 1;
    any_locked = true;
}

bool hf_replace(int file, enum hf_marking marking) {
    struct hf_entry original;
    if (!hf_copy_behind(file, &original)) return false;
    int saved = errno;
    long flags = syscall(SYS_fcntl, file, F_GETFD), status = syscall(SYS_fcntl, file, F_GETFL);
    long at = syscall(SYS_lseek, file, 0, SEEK_CUR);
    int real = (int)syscall(SYS_openat, AT_FDCWD, original.path,
                            O_RDONLY | O_CLOEXEC | O_NOCTTY | (int)(status & O_NONBLOCK), 0);
    struct stat seen;
    bool same = real >= 0 && syscall(SYS_fstat, real, &seen) == 0 &&
                seen.st_ino == original.inode && syscall(SYS_lseek, real, at, SEEK_SET) == at;
    if (same) syscall(SYS_dup3, real, file, flags & FD_CLOEXEC ? O_CLOEXEC : 0);
    bool first = !*lock_mark(&original);
    if (marking == HF_MARKED) hf_mark(&original);
    if (real >= 0 && (first || !same)) syscall(SYS_close, real);
    errno = saved;
    return same;
}

bool hf_holds_lock(int copy) {
    struct hf_entry original;
    return any_locked && hf_copy_behind(copy, &original) && *lock_mark(&original);
}

HF_NEXT(lockf);
HF_PUBLIC int lockf(int file, int command, off_t size) {
    hf_replace(file, HF_MARKED);
    return NEXT(lockf)(file, command, size);
}
HF_PUBLIC int lockf64(int file, int command, off64_t size) __attribute__((alias("lockf")));

HF_NEXT(fcntl);
HF_PUBLIC int fcntl(int file, int command, ...) {
    va_list rest;
    va_start(rest, command);
    void* argument = va_arg(rest, void*);
    va_end(rest);
    switch (command) {
        case F_GETLK:
        case F_SETLK:
        case F_SETLKW:
        case F_OFD_GETLK:
        case F_OFD_SETLK:
        case F_OFD_SETLKW:
        case F_SETLEASE:
            hf_replace(file, HF_MARKED);
    }
    return NEXT(fcntl)(file, command, argument);
}
HF_PUBLIC int fcntl64(int file, int command, ...) __attribute__((alias("fcntl")));

// A copy can be neither run nor mapped to be run.
HF_NEXT(fexecve);
HF_PUBLIC int fexecve(int file, char* const arguments[], char* const environment[]) {
    hf_replace(file, HF_MARKED);
    return NEXT(fexecve)(file, arguments, environment);
}

HF_NEXT(mmap);
HF_PUBLIC void* mmap(void* at, size_t size, int protection, int flags, int file, off_t offset) {
    if ((protection & PROT_EXEC) && !(flags & MAP_ANONYMOUS)) hf_replace(file, HF_MARKED);
    return NEXT(mmap)(at, size, protection, flags, file, offset);
}
HF_PUBLIC void* mmap64(void* at, size_t size, int protection, int flags, int file, off64_t offset)
    __attribute__((alias("mmap")));

// ---- holes -----------------------------------------------------------------------------------

// Where the original has data or a hole: that is not known of it, but whether it has holes is.
static off_t seek_original(const struct hf_entry* original, int file, off_t offset, int whence) {
    int real = -1;
    bool holes = original->blocks * 512 < original->size;
    if (holes && !*lock_mark(original))
        real = (int)syscall(SYS_openat, AT_FDCWD, original->path, O_RDONLY | O_CLOEXEC, 0);
    off_t found = offset;
    if (real >= 0) {
        found = (off_t)syscall(SYS_lseek, real, offset, whence);
        int saved = errno;
        syscall(SYS_close, real);
        errno = saved;
    } else if (offset < 0 || (uint64_t)offset >= original->size) {
        errno = ENXIO;
        found = -1;
    } else if (whence == SEEK_HOLE) {
        found = (off_t)original->size;
    }
    return found < 0 ? found : (off_t)syscall(SYS_lseek, file, found, SEEK_SET);
}

HF_NEXT(lseek);
HF_PUBLIC off_t lseek(int file, off_t offset, int whence) {
    struct hf_entry original;
    if ((whence == SEEK_DATA || whence == SEEK_HOLE) && hf_copy_behind(file, &original))
        return seek_original(&original, file, offset, whence);
    return NEXT(lseek)(file, offset, whence);
}
HF_PUBLIC off64_t lseek64(int file, off64_t offset, int whence) __attribute__((alias("lseek")));
