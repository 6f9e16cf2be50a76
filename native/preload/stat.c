// The calls that ask what a file is like: of a copy they tell what the original is like.
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "preload/shim.h"

// Older C libraries have these as functions, not as calls of their own.
int __fxstat(int version, int descriptor, struct stat* out);
int __xstat(int version, const char* path, struct stat* out);
int __lxstat(int version, const char* path, struct stat* out);
int __fxstatat(int version, int directory, const char* path, struct stat* out, int flags);

HF_NEXT(access);
HF_NEXT(faccessat);
HF_NEXT(fstat);
HF_NEXT(lstat);
HF_NEXT(stat);
HF_NEXT(fstatat);
HF_NEXT(statx);
HF_NEXT(__fxstat);
HF_NEXT(__xstat);
HF_NEXT(__lxstat);
HF_NEXT(__fxstatat);

// A copy is met by descriptor, and by names such as /dev/stdin.
static int corrected(int result, struct stat* out) {
    struct hf_entry original;
    int saved = errno;
    if (result == 0 && hf_is_copy(out, &original)) hf_fill(&original, out);
    return hf_keep_errno(saved, result);
}

// ---- by path ---------------------------------------------------------------------------------

// What is known of a path below a root without a look at the shared file system. `follow`: a link
// at its end.
static bool known(int directory, const char* path, bool follow, struct hf_entry* original) {
    if (!hf_active()) return false;
    HF_BORROW(struct hf_place, place);
    if (place == NULL) return false;
    int saved = errno;
    bool found = hf_below(directory, path, place) && hf_known(place, original) &&
                 (follow || original->direct);
    errno = saved;
    return found;
}

static bool filled(int directory, const char* path, bool follow, struct stat* out) {
    struct hf_entry original;
    if (out == NULL || !known(directory, path, follow, &original)) return false;
    hf_fill(&original, out);
    return true;
}

// Whoever may read the original, as the agent could, which belongs to the same user. Other groups
// than the agent's may decide where not all have the same right.
static bool readable(int directory, const char* path) {
    struct hf_entry original;
    const uint32_t everybody = S_IRUSR | S_IRGRP | S_IROTH;
    if (getuid() != hf_settings.user || !known(directory, path, true, &original)) return false;
    return hf_settings.user == 0 || (original.mode & everybody) == everybody ||
           (original.uid == hf_settings.user && (original.mode & S_IRUSR));
}

HF_PUBLIC int access(const char* path, int mode) {
    if ((mode & ~R_OK) == F_OK && readable(AT_FDCWD, path)) return 0;
    return NEXT(access)(path, mode);
}

HF_PUBLIC int faccessat(int directory, const char* path, int mode, int flags) {
    if ((mode & ~R_OK) == F_OK && (flags & ~AT_EACCESS) == 0 && readable(directory, path)) return 0;
    return NEXT(faccessat)(directory, path, mode, flags);
}

HF_PUBLIC int lstat(const char* path, struct stat* out) {
    if (filled(AT_FDCWD, path, false, out)) return 0;
    if (NEXT(lstat) == NULL)
        return (int)syscall(SYS_newfstatat, AT_FDCWD, path, out, AT_SYMLINK_NOFOLLOW);
    return NEXT(lstat)(path, out);
}

HF_PUBLIC int __lxstat(int version, const char* path, struct stat* out) {
    if (filled(AT_FDCWD, path, false, out)) return 0;
    return NEXT(__lxstat)(version, path, out);
}

HF_PUBLIC int fstat(int descriptor, struct stat* out) {
    if (NEXT(fstat) == NULL) return corrected((int)syscall(SYS_fstat, descriptor, out), out);
    return corrected(NEXT(fstat)(descriptor, out), out);
}

HF_PUBLIC int stat(const char* path, struct stat* out) {
    if (filled(AT_FDCWD, path, true, out)) return 0;
    if (NEXT(stat) == NULL)
        return corrected((int)syscall(SYS_newfstatat, AT_FDCWD, path, out, 0), out);
    return corrected(NEXT(stat)(path, out), out);
}

// Flags with which what is known answers: the others are about mounts and how to ask a server.
static bool by_path(int flags) {
    return (flags & ~(AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT)) == 0;
}

HF_PUBLIC int fstatat(int directory, const char* path, struct stat* out, int flags) {
    if (by_path(flags) && filled(directory, path, !(flags & AT_SYMLINK_NOFOLLOW), out)) return 0;
    if (NEXT(fstatat) == NULL)
        return corrected((int)syscall(SYS_newfstatat, directory, path, out, flags), out);
    return corrected(NEXT(fstatat)(directory, path, out, flags), out);
}

HF_PUBLIC int __fxstat(int version, int descriptor, struct stat* out) {
    return corrected(NEXT(__fxstat)(version, descriptor, out), out);
}

HF_PUBLIC int __xstat(int version, const char* path, struct stat* out) {
    if (filled(AT_FDCWD, path, true, out)) return 0;
    return corrected(NEXT(__xstat)(version, path, out), out);
}

HF_PUBLIC int __fxstatat(int version, int directory, const char* path, struct stat* out,
                         int flags) {
    if (by_path(flags) && filled(directory, path, !(flags & AT_SYMLINK_NOFOLLOW), out)) return 0;
    return corrected(NEXT(__fxstatat)(version, directory, path, out, flags), out);
}

HF_PUBLIC int fstat64(int descriptor, struct stat64* out) __attribute__((alias("fstat")));
HF_PUBLIC int stat64(const char* path, struct stat64* out) __attribute__((alias("stat")));
HF_PUBLIC int lstat64(const char* path, struct stat64* out) __attribute__((alias("lstat")));
HF_PUBLIC int __lxstat64(int version, const char* path, struct stat64* out)
    __attribute__((alias("__lxstat")));
HF_PUBLIC int fstatat64(int directory, const char* path, struct stat64* out, int flags)
    __attribute__((alias("fstatat")));
HF_PUBLIC int __fxstat64(int version, int descriptor, struct stat64* out)
    __attribute__((alias("__fxstat")));
HF_PUBLIC int __xstat64(int version, const char* path, struct stat64* out)
    __attribute__((alias("__xstat")));
HF_PUBLIC int __fxstatat64(int version, int directory, const char* path, struct stat64* out,
                           int flags) __attribute__((alias("__fxstatat")));

// ---- statx -----------------------------------------------------------------------------------

static struct statx_timestamp timestamp(struct timespec time) {
    return (struct statx_timestamp){.tv_sec = time.tv_sec, .tv_nsec = (uint32_t)time.tv_nsec};
}

static void fill_statx(const struct hf_entry* original, struct statx* out) {
    struct stat plain;
    hf_fill(original, &plain);
    memset(out, 0, sizeof *out);
    out->stx_mask = STATX_BASIC_STATS;  // when it was born is not known
    out->stx_blksize = (uint32_t)plain.st_blksize;
    out->stx_nlink = (uint32_t)plain.st_nlink;
    out->stx_uid = plain.st_uid;
    out->stx_gid = plain.st_gid;
    out->stx_mode = (uint16_t)plain.st_mode;
    out->stx_ino = plain.st_ino;
    out->stx_size = (uint64_t)plain.st_size;
    out->stx_blocks = (uint64_t)plain.st_blocks;
    out->stx_atime = timestamp(plain.st_atim);
    out->stx_mtime = timestamp(plain.st_mtim);
    out->stx_ctime = timestamp(plain.st_ctim);
    out->stx_dev_major = major(plain.st_dev);
    out->stx_dev_minor = minor(plain.st_dev);
}

HF_PUBLIC int statx(int directory, const char* path, int flags, unsigned mask, struct statx* out) {
    struct hf_entry original;
    // When it was born is not known, and whoever asks for that gets it from the original.
    if (by_path(flags) && !(mask & ~(unsigned)STATX_BASIC_STATS) &&
        known(directory, path, !(flags & AT_SYMLINK_NOFOLLOW), &original)) {
        fill_statx(&original, out);
        return 0;
    }
    // What tells a copy from other files must be there, whatever is asked for.
    unsigned more = STATX_BASIC_STATS;
    int result = NEXT(statx)(directory, path, flags, mask | more, out);
    if (result != 0 || out->stx_mode != (S_IFREG | S_IRUSR)) return result;
    struct stat seen = {.st_mode = out->stx_mode,
                        .st_uid = out->stx_uid,
                        .st_dev = makedev(out->stx_dev_major, out->stx_dev_minor),
                        .st_ino = out->stx_ino,
                        .st_size = (off_t)out->stx_size,
                        .st_mtim = {out->stx_mtime.tv_sec, out->stx_mtime.tv_nsec}};
    int saved = errno;
    if (hf_is_copy(&seen, &original)) fill_statx(&original, out);
    return hf_keep_errno(saved, result);
}
