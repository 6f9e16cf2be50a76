// The preload shim: files below the roots are opened by the agent of the node, as copies; all else,
// and whatever goes wrong, is left to the C library. `holdfast run` sets its variables.
//
// What the parts share. Everything here may be called from any thread and from signal handlers:
// nothing allocates, nothing waits for a lock, errno is the caller's business (hf_keep_errno).
#pragma once

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <time.h>

#include "base/attribute_table.h"
#include "base/order_template.h"

#define HF_PUBLIC __attribute__((visibility("default")))
#define HF_MOST_ROOTS 32

// ---- the C library's own (next.c) ----

struct hf_symbol {
    const char* name;
    void* address;
};
// Functions of the next library that has them; all are looked up when the shim is loaded.
#define HF_NEXT(symbol)                   \
    static struct hf_symbol next_##symbol \
        __attribute__((section("hf_symbols"), used)) = {#symbol, NULL}
#define NEXT(symbol) ((__typeof__(&symbol))hf_next(&next_##symbol))
void* hf_next(struct hf_symbol* symbol);
void hf_find_all(void);
// The time as agents see it: programs may be told another by a library that stands before the C
// library's clock.
void hf_now(clockid_t clock, struct timespec* now);

// ---- room that is not on the stack (scratch.c) ----

#define HF_SCRATCH 2560u
void* hf_borrow(void);  // NULL: there is no memory
void hf_give_back(void* variable);
// Room for one of a type, until the block ends.
#define HF_BORROW(type, name)                                      \
    _Static_assert(sizeof(type) <= HF_SCRATCH, "it does not fit"); \
    type* name __attribute__((cleanup(hf_give_back))) = hf_borrow()

// ---- what `holdfast run` has set (settings.c) ----

struct hf_root {
    char path[HF_TABLE_PATH];   // as it was given, which is how its files are called
    char alias[HF_TABLE_PATH];  // where it really lies
    // What files below have in common as this process sees it; 0: not asked for yet.
    _Atomic uint64_t device;
    _Atomic uint64_t block_size;
    _Atomic uint32_t here;       // it was found to be what the agent told in this sequence
    _Atomic uint32_t slot;       // at which place of the table that was
    _Atomic uint32_t elsewhere;  // it was not: as the agent told it in this sequence
    _Atomic bool asked;          // and the agent was asked to look again
};

struct hf_settings {
    char socket[108], table[1024];
    struct hf_root roots[HF_MOST_ROOTS];
    size_t count;
    uint32_t start;  // a number that differs from process to process
    uint32_t user;   // to whom this process belonged when it began
    uint64_t deadline_ms;
    uint64_t filters;            // of system calls that `holdfast run` had
    char order[HF_ORDER_BYTES];  // of any file: what follows root and path
    uint16_t copies;             // of that
    uint8_t validate;
    uint64_t largest;
};
extern struct hf_settings hf_settings;

// Whether an agent serves files here and now.
bool hf_active(void);
void hf_switch_off(void);

// Whether filters of system calls came since then for this thread (seccomp.c).
bool hf_is_filtered(void);

// ---- whether the agent sees the same (mounts.c) ----

enum hf_whether { HF_UNTOLD, HF_ELSEWHERE, HF_HERE };
// Whether a root is the directory that the agent's copies are of. Where mount namespaces differ its
// path may stand for anything. HF_UNTOLD: the agent has not been asked for a file of it.
enum hf_whether hf_is_here(const struct hf_root* root);
// That is to be found out again.
void hf_forget_roots(void);

// ---- names (paths.c) ----

struct hf_place {
    const struct hf_root* root;
    size_t bytes;
    char path[HF_TABLE_PATH];
};
// Where a path leads that lies below a root; false if it does not, or if only the file system can
// tell. `directory` is a descriptor or AT_FDCWD.
bool hf_below(int directory, const char* path, struct hf_place* place);
// The whole of a path, wherever it lies; false if only the file system can tell.
bool hf_spelled(int directory, const char* path, struct hf_place* place);
// The same as the file system has it: links are followed, the last one if `follow`.
bool hf_resolved(int directory, const char* path, bool follow, struct hf_place* place);
// What of a root a change of such a place concerns, as what comes behind the root's path: what lies
// there, or, if the `name` changes and is that of the root or of something above it, all ("").
// NULL: nothing.
const char* hf_touched(const struct hf_root* root, const struct hf_place* place, bool name);
struct hf_root* hf_root_of(const char* path, size_t root_bytes);

// ---- the agent (agent.c) ----

// A descriptor of a copy; -1: the program reads the shared file system.
int hf_ask_for(const struct hf_place* place, bool close_on_exec);
// Returns when it is invalidated at all nodes, or they cannot be told.
void hf_invalidate(const struct hf_place* place);
void hf_forget_connections(void);  // in a child
// The same file under a number that programs do not expect for theirs; -1: there is none.
int hf_raise(int low);

// ---- changes (changing.c) ----

// To be called before what a path leads to is changed.
void hf_changes(int directory, const char* path, bool follow);

// ---- copies (attributes.c) ----

// Whether we could tell what an original is like; else it is better to have that one open.
bool hf_knows_copies(void);
// Whether that is a copy, of what.
bool hf_is_copy(const struct stat* seen, struct hf_entry* original);
bool hf_copy_behind(int descriptor, struct hf_entry* original);
// What the original is like of which the agent has a copy under a name, without asking anybody.
bool hf_known(const struct hf_place* place, struct hf_entry* original);
// A descriptor of a copy that the agent has under a name, without asking it; -1: it must be asked.
int hf_open_by_name(const struct hf_place* place, bool close_on_exec);
// What the agent sees at a root, and the sequence in which it was told.
bool hf_root_told(struct hf_root* root, struct hf_seen_root* told);
uint32_t hf_root_sequence(const struct hf_root* root);  // of what it tells now; 0: nothing
// Whether the agent's heart beats at this moment.
bool hf_agent_beats(void);
// Whether its heart has stood still for a deadline, so that no process needs to wait for another.
bool hf_agent_is_silent(void);
// Returns when no process of the node believes any more what an agent told that is gone.
void hf_wait_until_stale(void);
// What the original's fstat would be.
void hf_fill(const struct hf_entry* original, struct stat* out);

// ---- the original itself (original.c, flock.c) ----

// From here on the number stands for the original, at the same offset. False: it did already, or
// the original is another. Marked: the process may hold locks of it, and opens it itself.
enum hf_marking { HF_UNMARKED, HF_MARKED };
bool hf_replace(int file, enum hf_marking marking);
void hf_mark(const struct hf_entry* original);
bool hf_holds_lock(int copy);
void hf_take_asides_over(void);  // in a child, or at the start

static inline int hf_keep_errno(int saved, int result) {
    errno = saved;
    return result;
}
