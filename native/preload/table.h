// The attribute table of a node: what the originals are like of which programs have copies open.
//
// A file that the agent writes and all processes of the node map, read-only. A copy is known by
// what the kernel says of it (device, inode, size, time of its last write), never by a descriptor's
// number. Copies never change, so another file that was given the same inode later does not match.
//
// An entry with an odd sequence is being written; whoever reads one compares its sequence before
// and after. An agent that starts again goes on with the file that it finds.
#pragma once

#include <stdint.h>

#define HF_TABLE_MAGIC UINT64_C(0x3162617446444c48)  // "HLDFtab1"
#define HF_TABLE_SETS 2048u
#define HF_TABLE_WAYS 8u    // a copy has its entry in one of so many places
#define HF_TABLE_PATH 904u  // so that an entry has 1 KiB

struct hf_entry {
    uint32_t sequence;    // 0: never written
    uint32_t root_bytes;  // the path begins with its root
    uint64_t stamp;       // of its set, the entry with the least gives way
    uint64_t copy_device, copy_inode, copy_mtime_ns;
    uint64_t size;  // of both
    uint32_t mode, uid, gid, unused;
    uint64_t nlink, inode, device, blocks, atime_ns, mtime_ns, ctime_ns;
    char path[HF_TABLE_PATH];  // of the original, with a zero behind it
};

struct hf_table {
    uint64_t magic;
    uint64_t stamp;  // the last that was given
    uint64_t unused[510];
    struct hf_entry entries[HF_TABLE_SETS * HF_TABLE_WAYS];
};

static inline uint32_t hf_table_first(uint64_t device, uint64_t inode) {
    uint64_t mixed = (inode + device * UINT64_C(0x9e3779b97f4a7c15)) * UINT64_C(0xff51afd7ed558ccd);
    return (uint32_t)(mixed >> 40) % HF_TABLE_SETS * HF_TABLE_WAYS;
}
