// Frames as docs/reference/protocol.md has them, as far as the shim needs them. Pure functions.
#pragma once

#include "preload/shim.h"

#define HF_HEADER 48u

struct hf_frame {
    uint64_t request;
    size_t size;
    char bytes[HF_HEADER + 2 * HF_TABLE_PATH + 64];
};

// What fits is enough for attributes, and for reasons that nobody reads here.
struct hf_reply {
    char bytes[4096];
};

enum hf_seen { HF_INCOMPLETE, HF_MALFORMED, HF_FAILURE, HF_SUCCESS };

void hf_write_open(struct hf_frame* frame, const struct hf_place* place);
// The first `got` bytes of the reply to a request.
enum hf_seen hf_look_at(const struct hf_reply* reply, size_t got, const struct hf_frame* request);
