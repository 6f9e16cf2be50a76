// The attribute table of a node: what the originals are like of which programs have copies open.
//
// A file that the agent writes and all processes of the node map, read-only. A copy is known by
// what the kernel says of it (device, inode, size, time of its last write), never by a descriptor's
// number. Copies never change, so another file that was given the same inode later does not match.
//
// An entry with an odd sequence is being written; a reader compares its sequence before
// and after. An agent that starts again goes on with the file that it finds.
//
// The magic is written when the whole file has its place on the file system. Before that a map of
// it may have pages for which there is no room, and who touches one is killed: read the magic
// first.
//
// The second part tells under which names the agent's own copies lie, so that programs open them
// and learn what their originals are like without asking. What it tells counts only as long as the
// agent's heart beats, and nothing was changed, refreshed or distrusted since: then the cache_epoch
// is another. Which file that is, the first part must confirm.
//
// Before both stands what the agent sees at the roots that it was asked about. A process that sees
// something else there, in a mount namespace of its own, has nothing to expect of the copies.
#pragma once

#include <stddef.h>
#include <stdint.h>

#define HF_TABLE_MAGIC UINT64_C(0x3262617446444c48)  // "HLDFtab2"
#define HF_TABLE_SETS 2048u
#define HF_TABLE_WAYS 8u    // a copy has its entry in one of this many places
#define HF_TABLE_PATH 904u  // so that an entry has 1 KiB
#define HF_TABLE_ROOTS 64u

struct hf_entry {
    uint32_t sequence;    // 0: never written
    uint32_t root_bytes;  // the path begins with its root
    uint64_t stamp;       // of its set, the entry with the least gives way
    uint64_t copy_device, copy_inode, copy_mtime_ns;
    uint64_t size;  // of both
    uint32_t mode, uid, gid;
    uint32_t direct;  // no symbolic link leads to it: what lstat tells is the same
    uint64_t nlink, inode, device, blocks, atime_ns, mtime_ns, ctime_ns;
    char path[HF_TABLE_PATH];  // of the original, with a zero behind it
};

struct hf_name {
    uint32_t sequence;
    uint16_t copies, unused;  // copies: as many were wanted
    uint64_t hash;            // of the original's path
    uint64_t cache_epoch, stamp;
    uint64_t copy_device, copy_inode;
    char file[208];  // with a zero behind it
};

struct hf_seen_root {
    uint32_t sequence, unused;
    uint64_t hash;  // of its path; 0: none
    uint64_t device, inode;
};

struct hf_table {
    uint64_t magic;
    uint64_t stamp;  // the last that was given
    uint64_t cache_epoch;
    uint64_t beat_ns, fresh_ns;  // when the heart beat last (CLOCK_BOOTTIME), how long that counts
    struct hf_seen_root roots[HF_TABLE_ROOTS];
    uint64_t unused[251];
    struct hf_name names[HF_TABLE_SETS * HF_TABLE_WAYS];
    struct hf_entry entries[HF_TABLE_SETS * HF_TABLE_WAYS];
};

static inline uint64_t hf_hash(const char* path, size_t bytes) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < bytes; ++i)
        hash = (hash ^ (unsigned char)path[i]) * UINT64_C(0x100000001b3);
    return hash;
}

static inline uint32_t hf_name_first(uint64_t hash) {
    return (uint32_t)(hash >> 40) % HF_TABLE_SETS * HF_TABLE_WAYS;
}

static inline uint32_t hf_table_first(uint64_t device, uint64_t inode) {
    uint64_t mixed = (inode + device * UINT64_C(0x9e3779b97f4a7c15)) * UINT64_C(0xff51afd7ed558ccd);
    return (uint32_t)(mixed >> 40) % HF_TABLE_SETS * HF_TABLE_WAYS;
}
