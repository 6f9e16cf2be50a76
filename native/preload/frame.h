// Frames as docs/reference/protocol.md has them, as far as the shim needs them. Pure functions.
#pragma once

#include "preload/shim.h"

#define HF_HEADER 48u
#define HF_MOST_META (64u << 10)

struct hf_frame {
    uint64_t request;
    size_t size;
    char bytes[HF_HEADER + 2 * (4 + HF_TABLE_PATH) + HF_ORDER_BYTES];
};

// The beginning of a reply. Attributes fit; of a reason, which nobody reads here, the rest is lost.
struct hf_reply {
    char bytes[512];
};

enum hf_seen { HF_INCOMPLETE, HF_MALFORMED, HF_FAILURE, HF_SUCCESS };

void hf_write_open(struct hf_frame* frame, const struct hf_place* place);
void hf_write_invalidate(struct hf_frame* frame, const struct hf_place* place);
// The first `got` bytes of the reply to a request.
enum hf_seen hf_look_at(const struct hf_reply* reply, size_t got, const struct hf_frame* request);
