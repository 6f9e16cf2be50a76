// The calls that open files.
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/shim.h"

HF_NEXT(open);
HF_NEXT(openat);
HF_NEXT(creat);
HF_NEXT(fopen);
HF_NEXT(freopen);

// For reading, and nothing that a copy would answer otherwise than the original. (O_LARGEFILE is 0
// in the C library's headers of 64-bit systems, and programs pass it all the same.)
#define KERNEL_LARGEFILE 0100000
#define HARMLESS (O_CLOEXEC | O_NOCTTY | O_NONBLOCK | O_NOFOLLOW | O_NOATIME | KERNEL_LARGEFILE)

static bool is_link(int directory, const char* path) {
    struct stat seen;
    return syscall(SYS_newfstatat, directory, path, &seen, AT_SYMLINK_NOFOLLOW) != 0 ||
           S_ISLNK(seen.st_mode);
}

// A descriptor of a copy; -1: the C library shall open it.
static int from_cache(int directory, const char* path, int flags) {
    // An anonymous file changes no path; its path is that of a directory, with all below it.
    bool nameless = (flags & O_TMPFILE) == O_TMPFILE;
    if (!nameless && ((flags & O_ACCMODE) != O_RDONLY || (flags & (O_CREAT | O_TRUNC))))
        hf_changes(directory, path, !(flags & O_NOFOLLOW));
    if ((flags & ~HARMLESS) != O_RDONLY || !hf_active()) return -1;
    HF_BORROW(struct hf_place, place);
    if (place == NULL) return -1;
    int saved = errno, file = -1;
    if (hf_below(directory, path, place) && !((flags & O_NOFOLLOW) && is_link(directory, path)))
        if ((file = hf_open_by_name(place, flags & O_CLOEXEC)) < 0)
            file = hf_ask_for(place, flags & O_CLOEXEC);
    if (file >= 0 && hf_holds_lock(file)) {  // and would lose them when the original is next closed
        syscall(SYS_close, file);
        file = -1;
    }
    if (file >= 0 && (flags & O_NONBLOCK)) syscall(SYS_fcntl, file, F_SETFL, O_NONBLOCK);
    return hf_keep_errno(saved, file);
}

static int opened(int directory, const char* path, int flags, mode_t mode) {
    int file = from_cache(directory, path, flags);
    if (file >= 0) return file;
    if (directory == AT_FDCWD) return NEXT(open)(path, flags, mode);
    return NEXT(openat)(directory, path, flags, mode);
}

#define MODE_AFTER(flags)                                            \
    mode_t mode = 0;                                                 \
    if (((flags) & O_CREAT) || ((flags) & O_TMPFILE) == O_TMPFILE) { \
        va_list rest;                                                \
        va_start(rest, flags);                                       \
        mode = va_arg(rest, mode_t);                                 \
        va_end(rest);                                                \
    }

HF_PUBLIC int open(const char* path, int flags, ...) {
    MODE_AFTER(flags)
    return opened(AT_FDCWD, path, flags, mode);
}

HF_PUBLIC int openat(int directory, const char* path, int flags, ...) {
    MODE_AFTER(flags)
    return opened(directory, path, flags, mode);
}

HF_PUBLIC int __open_2(const char* path, int flags) {
    return opened(AT_FDCWD, path, flags, 0);
}

HF_PUBLIC int __openat_2(int directory, const char* path, int flags) {
    return opened(directory, path, flags, 0);
}

HF_PUBLIC int creat(const char* path, mode_t mode) {
    hf_changes(AT_FDCWD, path, true);
    return NEXT(creat)(path, mode);
}

HF_PUBLIC int open64(const char* path, int flags, ...) __attribute__((alias("open")));
HF_PUBLIC int __open(const char* path, int flags, ...) __attribute__((alias("open")));
HF_PUBLIC int __open64(const char* path, int flags, ...) __attribute__((alias("open")));
HF_PUBLIC int openat64(int directory, const char* path, int flags, ...)
    __attribute__((alias("openat")));
HF_PUBLIC int __open64_2(const char* path, int flags) __attribute__((alias("__open_2")));
HF_PUBLIC int __openat64_2(int directory, const char* path, int flags)
    __attribute__((alias("__openat_2")));
HF_PUBLIC int creat64(const char* path, mode_t mode) __attribute__((alias("creat")));

// ---- streams ---------------------------------------------------------------------------------

// What fopen would give open; -1 if the C library is to say what is wrong with it.
static int flags_of(const char* mode) {
    static const struct {
        char letter;
        int flags, with_plus;
    } kinds[] = {{'r', O_RDONLY, O_RDWR},
                 {'w', O_WRONLY | O_CREAT | O_TRUNC, O_RDWR | O_CREAT | O_TRUNC},
                 {'a', O_WRONLY | O_CREAT | O_APPEND, O_RDWR | O_CREAT | O_APPEND}};
    for (size_t i = 0; mode != NULL && i < sizeof kinds / sizeof *kinds; ++i) {
        if (*mode != kinds[i].letter) continue;
        int flags = kinds[i].flags;
        for (const char* more = mode + 1; *more != 0; ++more) {
            if (*more == '+') flags = kinds[i].with_plus | (flags & O_CLOEXEC);
            if (*more == 'e') flags |= O_CLOEXEC;
        }
        return flags;
    }
    return -1;
}

static int stream_from_cache(const char* path, const char* mode, int more) {
    int flags = path == NULL ? -1 : flags_of(mode);
    if (flags < 0) return -1;
    // fdopen does not convert characters (",ccs=").
    if ((flags & O_ACCMODE) == O_RDONLY && strchr(mode, ',') != NULL) return -1;
    return from_cache(AT_FDCWD, path, flags | more);
}

HF_PUBLIC FILE* fopen(const char* path, const char* mode) {
    int file = stream_from_cache(path, mode, 0);
    if (file >= 0) {
        int saved = errno;
        FILE* stream = fdopen(file, mode);
        if (stream != NULL) return stream;
        syscall(SYS_close, file);
        errno = saved;
    }
    return NEXT(fopen)(path, mode);
}

// The stream keeps its descriptor's number, so the C library opens the copy once more.
HF_PUBLIC FILE* freopen(const char* path, const char* mode, FILE* stream) {
    int file = stream_from_cache(path, mode, O_CLOEXEC);
    if (file < 0) return NEXT(freopen)(path, mode, stream);
    char link[32];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    int saved = errno;
    bool there = syscall(SYS_faccessat, AT_FDCWD, link, R_OK) == 0;
    errno = saved;
    FILE* same = NEXT(freopen)(there ? link : path, mode, stream);
    saved = errno;
    syscall(SYS_close, file);
    errno = saved;
    return same;
}

HF_PUBLIC FILE* fopen64(const char* path, const char* mode) __attribute__((alias("fopen")));
HF_PUBLIC FILE* _IO_fopen(const char* path, const char* mode) __attribute__((alias("fopen")));
HF_PUBLIC FILE* freopen64(const char* path, const char* mode, FILE* stream)
    __attribute__((alias("freopen")));
