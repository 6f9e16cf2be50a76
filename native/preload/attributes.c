// Maps a descriptor of a cached copy to the attributes of its original.
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "preload/shim.h"

static uint64_t nanoseconds(const struct timespec* time) {
    return (uint64_t)time->tv_sec * 1000000000u + (uint64_t)time->tv_nsec;
}

static struct timespec timespec_of(uint64_t ns) {
    int64_t time = (int64_t)ns, seconds = time / 1000000000, rest = time % 1000000000;
    if (rest < 0) --seconds, rest += 1000000000;
    return (struct timespec){seconds, rest};
}

// ---- the table -------------------------------------------------------------------------------

// The clock of hearts: it goes on while the host sleeps, when agents hear nothing.
static uint64_t now_ns(void) {
    struct timespec now;
    hf_now(CLOCK_BOOTTIME, &now);
    return nanoseconds(&now);
}

static bool beats(const struct hf_table* all) {
    uint64_t beat = __atomic_load_n(&all->beat_ns, __ATOMIC_ACQUIRE), time = now_ns();
    return beat != 0 && time < beat + all->fresh_ns && beat < time + all->fresh_ns;
}

// A program may outlive a session, and find the table of the next one under the same path. Maps
// stay, since others may be reading them, and what they tell of copies that are still open holds.
// After this many sessions the program keeps to the last.
#define MOST_MAPS 16
struct map {
    const struct hf_table* table;
    uint64_t device, inode;
    struct map* before;
};
static struct map maps[MOST_MAPS];
static _Atomic unsigned claimed;
static struct map* _Atomic newest;

// Maps the table that lies there now, if it is another than the one that is known.
static void map_table(struct map* known) {
    struct stat seen;
    if (known != NULL && (syscall(SYS_newfstatat, AT_FDCWD, hf_settings.table, &seen, 0) != 0 ||
                          (seen.st_dev == known->device && seen.st_ino == known->inode)))
        return;
    if (claimed >= MOST_MAPS) return;
    int file = (int)syscall(SYS_openat, AT_FDCWD, hf_settings.table, O_RDONLY | O_CLOEXEC, 0);
    if (file < 0) return;
    uint64_t magic;
    void* at = MAP_FAILED;
    if (syscall(SYS_fstat, file, &seen) == 0 && seen.st_size == sizeof(struct hf_table) &&
        seen.st_uid == hf_settings.user &&
        syscall(SYS_pread64, file, &magic, sizeof magic, offsetof(struct hf_table, magic)) ==
            sizeof magic &&
        magic == HF_TABLE_MAGIC)
        at =
            (void*)syscall(SYS_mmap, NULL, sizeof(struct hf_table), PROT_READ, MAP_SHARED, file, 0);
    syscall(SYS_close, file);
    if (at == MAP_FAILED) return;
    unsigned place = claimed++;
    if (place < MOST_MAPS) {
        maps[place] = (struct map){at, seen.st_dev, seen.st_ino, known};
        if (__atomic_compare_exchange_n((struct map**)&newest, &known, &maps[place], false,
                                        __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
            if (known != NULL) hf_forget_roots();
            return;
        }
    }
    syscall(SYS_munmap, at, sizeof(struct hf_table));
}

// That of the session that there is, if there is one; looked for when the first descriptor comes
// along that may be a copy, and again whenever its heart does not beat.
static struct map* tables(void) {
    struct map* known = newest;
    if (hf_settings.table[0] == 0 || (known != NULL && beats(known->table))) return known;
    int saved = errno;
    map_table(known);
    errno = saved;
    return newest;
}

static const struct hf_table* table(void) {
    const struct map* known = tables();
    return known == NULL ? NULL : known->table;
}

// ---- copies ----------------------------------------------------------------------------------

// Without what lies behind the end of its path: most are short, and each line of the table that is
// not touched need not come from memory. False: its path has no end.
static bool copy_entry(const struct hf_entry* entry, struct hf_entry* out) {
    enum { kLine = 64 };
    memcpy(out, (const void*)entry, offsetof(struct hf_entry, path));
    for (size_t at = 0; at < sizeof out->path; at += kLine) {
        size_t left = sizeof out->path - at, bytes = left < kLine ? left : kLine;
        memcpy(out->path + at, (const void*)(entry->path + at), bytes);
        if (memchr(out->path + at, 0, bytes) != NULL) return true;
    }
    return false;
}

// Whether an entry is that of a copy with such a number, and whole.
static bool matches(const struct hf_entry* entry, uint64_t device, uint64_t inode,
                    struct hf_entry* out) {
    for (int attempt = 0; attempt < 100; ++attempt) {
        uint32_t before = __atomic_load_n(&entry->sequence, __ATOMIC_ACQUIRE);
        if (before == 0) return false;
        if (entry->copy_inode != inode) return false;
        if (before % 2 != 0) continue;
        bool ends = copy_entry(entry, out);
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        if (__atomic_load_n(&entry->sequence, __ATOMIC_RELAXED) != before) continue;
        return out->copy_inode == inode && out->copy_device == device && ends;
    }
    return false;
}

static bool find_entry(const struct hf_table* all, uint64_t device, uint64_t inode,
                       struct hf_entry* out) {
    const struct hf_entry* set = &all->entries[hf_table_first(device, inode)];
    for (unsigned way = 0; way < HF_TABLE_WAYS; ++way)
        if (matches(&set[way], device, inode, out)) return true;
    return false;
}

bool hf_knows_copies(void) {
    return table() != NULL;
}

bool hf_is_copy(const struct stat* seen, struct hf_entry* original) {
    // All copies are like that, and hardly anything else is.
    if (seen->st_mode != (S_IFREG | S_IRUSR) || seen->st_uid != hf_settings.user) return false;
    for (const struct map* one = tables(); one != NULL; one = one->before)
        if (find_entry(one->table, seen->st_dev, seen->st_ino, original) &&
            original->size == (uint64_t)seen->st_size &&
            original->copy_mtime_ns == nanoseconds(&seen->st_mtim))
            return true;
    return false;
}

bool hf_copy_behind(int descriptor, struct hf_entry* original) {
    int saved = errno;
    struct stat seen;
    bool found = syscall(SYS_fstat, descriptor, &seen) == 0 && hf_is_copy(&seen, original);
    errno = saved;
    return found;
}

// ---- copies that lie under a name ------------------------------------------------------------

// Whether the agent lives and has not forgotten what it told.
static bool holds(const struct hf_table* all, uint64_t cache_epoch) {
    return beats(all) && __atomic_load_n(&all->cache_epoch, __ATOMIC_ACQUIRE) == cache_epoch;
}

bool hf_agent_beats(void) {
    const struct hf_table* all = table();
    return all != NULL && beats(all);
}

void hf_wait_until_stale(void) {
    const struct hf_table* all = table();
    if (all == NULL) return;
    struct timespec pause = {0, 10 * 1000 * 1000};
    uint64_t end = now_ns() + all->fresh_ns;
    for (;;) {
        uint64_t beat = __atomic_load_n(&all->beat_ns, __ATOMIC_ACQUIRE), time = now_ns();
        if (beat == 0 || time >= beat + all->fresh_ns || time >= end) return;
        syscall(SYS_nanosleep, &pause, NULL);
    }
}

bool hf_agent_is_silent(void) {
    const struct hf_table* all = table();
    if (all == NULL) return false;
    uint64_t beat = __atomic_load_n(&all->beat_ns, __ATOMIC_ACQUIRE);
    return beat != 0 && now_ns() > beat + hf_settings.deadline_ms * 1000000;
}

static bool read_name(const struct hf_name* name, uint64_t hash, struct hf_name* out) {
    uint32_t before = __atomic_load_n(&name->sequence, __ATOMIC_ACQUIRE);
    if (before == 0 || before % 2 != 0 || name->hash != hash) return false;
    memcpy(out, (const void*)name, sizeof *out);
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return __atomic_load_n(&name->sequence, __ATOMIC_RELAXED) == before && out->hash == hash &&
           out->copies >= hf_settings.copies && out->file[sizeof out->file - 1] == 0;
}

// What the agent tells of a path; whether that holds is to be asked when it has been used.
static bool find_name(const struct hf_table* all, const struct hf_place* place,
                      struct hf_name* out) {
    if (all == NULL || hf_settings.validate) return false;
    uint64_t hash = hf_hash(place->path, place->bytes);
    const struct hf_name* set = &all->names[hf_name_first(hash)];
    for (unsigned way = 0; way < HF_TABLE_WAYS; ++way)
        if (read_name(&set[way], hash, out)) return true;
    return false;
}

static bool is_of(const struct hf_entry* original, const struct hf_place* place) {
    return strcmp(original->path, place->path) == 0 &&
           (hf_settings.largest == 0 || original->size <= hf_settings.largest);
}

bool hf_known(const struct hf_place* place, struct hf_entry* original) {
    const struct hf_table* all = table();
    struct hf_name name;
    return find_name(all, place, &name) && hf_is_here(place->root) == HF_HERE &&
           find_entry(all, name.copy_device, name.copy_inode, original) && is_of(original, place) &&
           holds(all, name.cache_epoch);
}

int hf_open_by_name(const struct hf_place* place, bool close_on_exec) {
    static _Atomic unsigned opens;
    // Now and then the agent is asked all the same: what is used is not evicted.
    if ((hf_settings.start + ++opens) % 64 == 0) return -1;
    const struct hf_table* all = table();
    struct hf_name name;
    if (!find_name(all, place, &name) || hf_is_here(place->root) != HF_HERE) return -1;
    int flags = O_RDONLY | O_NOFOLLOW | (close_on_exec ? O_CLOEXEC : 0);
    int file = (int)syscall(SYS_openat, AT_FDCWD, name.file, flags, 0);
    if (file < 0) return -1;
    struct stat seen;
    struct hf_entry original;
    if (syscall(SYS_fstat, file, &seen) == 0 && hf_is_copy(&seen, &original) &&
        is_of(&original, place) && holds(all, name.cache_epoch))
        return file;
    syscall(SYS_close, file);
    return -1;
}

bool hf_root_told(struct hf_root* root, struct hf_seen_root* told) {
    const struct hf_table* all = table();
    uint64_t hash = hf_hash(root->path, strlen(root->path));
    for (unsigned i = 0; all != NULL && i < HF_TABLE_ROOTS; ++i) {
        const struct hf_seen_root* one = &all->roots[i];
        uint32_t before = __atomic_load_n(&one->sequence, __ATOMIC_ACQUIRE);
        if (before % 2 != 0 || one->hash != hash) continue;
        memcpy(told, (const void*)one, sizeof *told);
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        if (__atomic_load_n(&one->sequence, __ATOMIC_RELAXED) == before && told->hash == hash) {
            root->slot = i;
            return true;
        }
    }
    return false;
}

uint32_t hf_root_sequence(const struct hf_root* root) {
    const struct hf_table* all = table();
    return all == NULL ? 0 : __atomic_load_n(&all->roots[root->slot].sequence, __ATOMIC_ACQUIRE);
}

// Devices have other numbers on other nodes: files have that of their root here.
static void localize(const struct hf_entry* original, struct stat* out) {
    struct hf_root* root = hf_root_of(original->path, original->root_bytes);
    if (root == NULL) return;
    if (root->device == 0) {
        struct stat seen;
        int saved = errno;
        long failed = syscall(SYS_newfstatat, AT_FDCWD, root->path, &seen, 0);
        errno = saved;
        if (failed) return;
        root->block_size = (uint64_t)seen.st_blksize;
        root->device = seen.st_dev;
    }
    out->st_dev = root->device;
    out->st_blksize = (blksize_t)root->block_size;
}

void hf_fill(const struct hf_entry* original, struct stat* out) {
    memset(out, 0, sizeof *out);
    out->st_dev = original->device;
    out->st_blksize = 4096;
    localize(original, out);
    out->st_ino = original->inode;
    out->st_mode = original->mode;
    out->st_nlink = original->nlink;
    out->st_uid = original->uid;
    out->st_gid = original->gid;
    out->st_size = (off_t)original->size;
    out->st_blocks = (blkcnt_t)original->blocks;
    out->st_atim = timespec_of(original->atime_ns);
    out->st_mtim = timespec_of(original->mtime_ns);
    out->st_ctim = timespec_of(original->ctime_ns);
}
