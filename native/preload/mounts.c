// Whether the roots are what the agent's copies are of. A path may stand for something else in a
// mount namespace of its own, as containers have it.
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/shim.h"

static bool is_that(const char* path, const struct hf_seen_root* told, struct stat* seen) {
    return syscall(SYS_newfstatat, AT_FDCWD, path, seen, 0) == 0 && seen->st_dev == told->device &&
           seen->st_ino == told->inode;
}

// Looked at when the first of its files is wanted, and again when the agent tells another: devices
// and inodes are the kernel's, the same in all namespaces of a node.
enum hf_whether hf_is_here(const struct hf_root* known) {
    struct hf_root* root = &hf_settings.roots[known - hf_settings.roots];
    struct hf_seen_root told;
    uint32_t here = root->here;
    if (here != 0 && here == hf_root_sequence(root)) return HF_HERE;
    if (!hf_root_told(root, &told)) return HF_UNTOLD;
    if (root->elsewhere == told.sequence) return HF_ELSEWHERE;
    struct stat seen;
    // Files are asked for by either of its names.
    if (!is_that(root->alias, &told, &seen) || !is_that(root->path, &told, &seen)) {
        root->elsewhere = told.sequence;
        return HF_ELSEWHERE;
    }
    root->block_size = (uint64_t)seen.st_blksize;
    root->device = seen.st_dev;
    root->here = told.sequence;
    return HF_HERE;
}

void hf_forget_roots(void) {
    for (size_t i = 0; i < hf_settings.count; ++i) {
        struct hf_root* root = &hf_settings.roots[i];
        root->here = 0;
        root->elsewhere = 0;
        root->asked = false;
        root->device = 0;
    }
}

// ---- where that may be another from then on --------------------------------------------------

static int looks_again(int result) {
    hf_forget_roots();
    return result;
}

#define MOVES(name, parameters, arguments)        \
    HF_NEXT(name);                                \
    HF_PUBLIC int name parameters {               \
        return looks_again(NEXT(name) arguments); \
    }

MOVES(unshare, (int flags), (flags))
MOVES(setns, (int file, int kind), (file, kind))
MOVES(mount,
      (const char* from, const char* at, const char* kind, unsigned long flags, const void* data),
      (from, at, kind, flags, data))
MOVES(umount, (const char* at), (at))
MOVES(umount2, (const char* at, int flags), (at, flags))
