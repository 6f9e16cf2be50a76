// Shared locks (flock) of files that are read. HDF5 takes one on each file that it opens.
//
// The original takes the copy's place, as for all locks, so that the kernel knows when the lock
// ends: with LOCK_UN, the last of the descriptors that share it, exec, the process. Under the lock
// the original is compared with what the copy was made of. If it is the same the copy is kept
// aside, and pread, by which such programs read, is answered from it as long as the number stands
// for that very file, which is looked at each time. All other calls meet the original, which has
// the same bytes.
//
// What is aside lies in a few places. Who reads one compares its sequence before and after; who
// changes one makes it odd. Nobody waits: a place that another is at does not count.
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "preload/shim.h"

#define PLACES 64

struct identity {
    uint64_t device, inode, size, mtime_ns;
    uint64_t ctime_ns;  // 0: whatever it is
};

struct aside {
    _Atomic uint32_t sequence;
    int file, copy;  // the number that stands for the original; -1: a free place
    struct identity original, of_copy;
};

static struct aside places[PLACES] = {[0 ... PLACES - 1] = {.file = -1, .copy = -1}};
static _Atomic int used;   // places that are not free
static _Atomic int owner;  // the process that may change them: not a child that shares our memory

static uint64_t ns_of(int64_t seconds, uint32_t ns) {
    return (uint64_t)seconds * 1000000000u + ns;
}

// What is known of an open file; AT_STATX_DONT_SYNC: without asking a server.
static bool look(int file, int sync, struct identity* out) {
    struct statx seen;
    if (syscall(SYS_statx, file, "", AT_EMPTY_PATH | sync, STATX_BASIC_STATS, &seen) != 0)
        return false;
    *out = (struct identity){makedev(seen.stx_dev_major, seen.stx_dev_minor), seen.stx_ino,
                             seen.stx_size, ns_of(seen.stx_mtime.tv_sec, seen.stx_mtime.tv_nsec),
                             ns_of(seen.stx_ctime.tv_sec, seen.stx_ctime.tv_nsec)};
    return true;
}

static bool is(int file, int sync, const struct identity* expected) {
    struct identity seen;
    if (!look(file, sync, &seen)) return false;
    if (expected->ctime_ns == 0) seen.ctime_ns = 0;
    return memcmp(&seen, expected, sizeof seen) == 0;
}

// ---- places ----------------------------------------------------------------------------------

static bool take(struct aside* place) {
    uint32_t before = place->sequence;
    return before % 2 == 0 &&
           __atomic_compare_exchange_n((uint32_t*)&place->sequence, &before, before + 1, false,
                                       __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

static void give_back(struct aside* place) {
    __atomic_fetch_add((uint32_t*)&place->sequence, 1, __ATOMIC_RELEASE);
}

// With the place taken. Programs close what they do not know: the number may be another's.
static void clear(struct aside* place) {
    if (place->file < 0) return;
    if (is(place->copy, AT_STATX_DONT_SYNC, &place->of_copy)) syscall(SYS_close, place->copy);
    place->file = place->copy = -1;
    --used;
}

static bool is_ours(void) {
    return owner == (int)syscall(SYS_getpid);
}

// Clears what is kept aside for a number; -1: for those that stand for other files by now.
static void forget(int file) {
    if (used == 0) return;
    int saved = errno;
    for (struct aside* place = places; place < places + PLACES; ++place) {
        if (place->file < 0) continue;
        if (file >= 0 ? place->file != file : is(place->file, AT_STATX_DONT_SYNC, &place->original))
            continue;
        if (!is_ours()) break;
        if (!take(place)) continue;
        if (file < 0 || place->file == file) clear(place);
        give_back(place);
    }
    errno = saved;
}

// The same for all numbers of the file that one stands for: duplicates share their lock.
static void forget_file(int file) {
    struct identity seen;
    int saved = errno;
    if (used != 0 && look(file, AT_STATX_DONT_SYNC, &seen))
        for (struct aside* place = places; place < places + PLACES; ++place)
            if (place->original.inode == seen.inode && place->original.device == seen.device)
                forget(place->file);
    errno = saved;
}

// Takes the copy over; false if there is no room.
static bool keep(int file, int copy, const struct identity* original) {
    struct identity of_copy;
    if (!is_ours() || !look(copy, AT_STATX_DONT_SYNC, &of_copy)) return false;
    of_copy.ctime_ns = 0;  // it changes when the agent has no more use for the copy
    for (struct aside* place = places; place < places + PLACES; ++place) {
        if (place->file >= 0 || !take(place)) continue;
        bool vacant = place->file < 0;
        if (vacant) {
            place->file = file;
            place->copy = copy;
            place->original = *original;
            place->of_copy = of_copy;
            ++used;
        }
        give_back(place);
        if (vacant) return true;
    }
    return false;
}

void hf_take_asides_over(void) {
    owner = (int)syscall(SYS_getpid);
    int count = 0;
    for (struct aside* place = places; place < places + PLACES; ++place) {
        if (place->sequence % 2 != 0) {  // by a thread that is not here any more
            place->file = -1;
            give_back(place);
        }
        count += place->file >= 0;
    }
    used = count;
}

// ---- locks -----------------------------------------------------------------------------------

// Whether an original, looked at under its lock, still is what a copy was made of.
static bool is_unchanged(const struct hf_entry* original, const struct identity* seen) {
    const struct hf_root* root = hf_root_of(original->path, original->root_bytes);
    return root != NULL && hf_is_here(root) == HF_HERE && seen->device == root->device &&
           seen->inode == original->inode && seen->size == original->size &&
           seen->mtime_ns == original->mtime_ns && seen->ctime_ns == original->ctime_ns;
}

HF_NEXT(flock);

static int lock_shared(int file, int operation, const struct hf_entry* original) {
    int saved = errno;
    int copy = hf_raise(file);
    bool replaced = hf_replace(file, HF_UNMARKED);
    errno = saved;
    int result = NEXT(flock)(file, operation);
    saved = errno;
    struct identity seen;
    bool same = result == 0 && replaced && look(file, 0, &seen) && is_unchanged(original, &seen);
    // From then on the process opens it itself, as it does after other locks.
    if (result == 0 && !same) hf_mark(original);
    if (copy >= 0 && !(same && keep(file, copy, &seen))) syscall(SYS_close, copy);
    return hf_keep_errno(saved, result);
}

HF_PUBLIC int flock(int file, int operation) {
    struct hf_entry original;
    forget(-1);
    if ((operation & ~LOCK_NB) == LOCK_SH && hf_active() && hf_copy_behind(file, &original))
        return lock_shared(file, operation, &original);
    // Whatever it does now, it shall see the file itself.
    forget_file(file);
    hf_replace(file, HF_MARKED);
    return NEXT(flock)(file, operation);
}

// ---- what ends it, and what is read ----------------------------------------------------------

HF_NEXT(close);
HF_PUBLIC int close(int file) {
    if (used != 0 && file >= 0) forget(file);
    return NEXT(close)(file);
}

// Bytes of the copy; -1: the original is to be read.
static ssize_t read_aside(int file, void* out, size_t bytes, off_t offset) {
    int saved = errno;
    ssize_t got = -1;
    for (struct aside* place = places; place < places + PLACES; ++place) {
        uint32_t before = __atomic_load_n((uint32_t*)&place->sequence, __ATOMIC_ACQUIRE);
        if (before % 2 != 0 || place->file != file) continue;
        struct aside seen;
        memcpy((void*)&seen, (const void*)place, sizeof seen);
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        if (place->sequence != before || !hf_active()) break;
        // As stat would see it: what this node itself has written counts at once.
        if (!is(file, 0, &seen.original)) {
            forget(file);
            break;
        }
        got = syscall(SYS_pread64, seen.copy, out, bytes, offset);
        // Only if the number stood for the copy all the time.
        if (!is(seen.copy, AT_STATX_DONT_SYNC, &seen.of_copy) || place->sequence != before)
            got = -1;
        break;
    }
    errno = saved;
    return got;
}

HF_NEXT(pread);
HF_PUBLIC ssize_t pread(int file, void* out, size_t bytes, off_t offset) {
    if (used != 0 && file >= 0) {
        ssize_t got = read_aside(file, out, bytes, offset);
        if (got >= 0) return got;
    }
    return NEXT(pread)(file, out, bytes, offset);
}
HF_PUBLIC ssize_t pread64(int file, void* out, size_t bytes, off64_t offset)
    __attribute__((alias("pread")));
