// Back-off from the agent of this node, for all who read the shared file system themselves when it
// is gone or silent: the shim, mounts and Python. A failure makes its asker pause, each one in a
// row twice as long as the last, up to a limit; an answer ends that. Failures of requests that were
// under way when a pause began count as one with it.
//
// Plain C, also for C++. Thread-safe and safe in signal handlers; nothing blocks or allocates. The
// clock is an argument: milliseconds of one that never goes back.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define HF_FIRST_PAUSE_MS 200u
#define HF_LONGEST_PAUSE_MS 10000u
// An agent that lives and reads a large file is waited for this many deadlines.
#define HF_FILE_DEADLINES 10
// And one that waits for those above it in a tree, for more: a busy storage makes all of them late,
// and were the first given up, every node would read the storage itself.
#define HF_TREE_DEADLINES 30

// All zero at first.
struct hf_backoff {
    uint64_t until_ms;  // 0: the last request was answered
    uint64_t pause_ms;
};

// Whether the last request failed; if not, there is no need to look at the clock.
static inline bool hf_has_failed(const struct hf_backoff* backoff) {
    return __atomic_load_n(&backoff->until_ms, __ATOMIC_RELAXED) != 0;
}

// Whether not to ask now.
static inline bool hf_backs_off(const struct hf_backoff* backoff, uint64_t now_ms) {
    return now_ms < __atomic_load_n(&backoff->until_ms, __ATOMIC_RELAXED);
}

static inline void hf_failed(struct hf_backoff* backoff, uint64_t now_ms) {
    uint64_t until = __atomic_load_n(&backoff->until_ms, __ATOMIC_RELAXED);
    if (now_ms < until) return;
    uint64_t pause = 2 * __atomic_load_n(&backoff->pause_ms, __ATOMIC_RELAXED);
    if (pause < HF_FIRST_PAUSE_MS) pause = HF_FIRST_PAUSE_MS;
    if (pause > HF_LONGEST_PAUSE_MS) pause = HF_LONGEST_PAUSE_MS;
    if (__atomic_compare_exchange_n(&backoff->until_ms, &until, now_ms + pause, false,
                                    __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        __atomic_store_n(&backoff->pause_ms, pause, __ATOMIC_RELAXED);
}

static inline void hf_answered(struct hf_backoff* backoff) {
    if (!hf_has_failed(backoff)) return;
    __atomic_store_n(&backoff->pause_ms, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&backoff->until_ms, 0, __ATOMIC_RELAXED);
}
