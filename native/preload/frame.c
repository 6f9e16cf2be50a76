#include "preload/frame.h"

#include <string.h>

enum { kOpen = 12, kInvalidate = 15, kVersion = 1 };
enum { kReply = 1, kDescriptor = 4 };
enum { kOpAt = 5, kFlagsAt = 6, kStatusAt = 8, kMetaAt = 12, kRequestAt = 16, kBodyAt = 24 };
enum { kDeadlineAt = 36, kCrcAt = 40 };
static const char kMagic[4] = "HLDF";

static uint32_t crc32c(uint32_t crc, const char* data, size_t bytes) {
    // By half bytes: a few hundred bytes a request need no more.
    static const uint32_t table[16] = {0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1,
                                       0x417b1dbc, 0x5125dad3, 0x61c69362, 0x7198540d,
                                       0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9,
                                       0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75};
    crc = ~crc;
    for (size_t i = 0; i < bytes; ++i) {
        crc ^= (unsigned char)data[i];
        crc = table[crc & 15] ^ (crc >> 4);
        crc = table[crc & 15] ^ (crc >> 4);
    }
    return ~crc;
}

static void put(char* out, uint64_t value, size_t bytes) {
    for (size_t i = 0; i < bytes; ++i) out[i] = (char)(value >> (8 * i));
}

static uint64_t take(const char* in, size_t bytes) {
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; ++i) value |= (uint64_t)(unsigned char)in[i] << (8 * i);
    return value;
}

// ---- requests --------------------------------------------------------------------------------

static void add(struct hf_frame* frame, uint64_t value, size_t bytes) {
    put(frame->bytes + frame->size, value, bytes);
    frame->size += bytes;
}

static void add_text(struct hf_frame* frame, const char* text, size_t bytes) {
    add(frame, bytes, 4);
    memcpy(frame->bytes + frame->size, text, bytes);
    frame->size += bytes;
}

static void finish(struct hf_frame* frame, uint8_t operation, uint16_t flags) {
    static _Atomic uint64_t last;
    char* head = frame->bytes;
    size_t meta = frame->size - HF_HEADER;
    frame->request = ++last;
    memcpy(head, kMagic, sizeof kMagic);
    head[4] = kVersion;
    put(head + kOpAt, operation, 1);
    put(head + kFlagsAt, flags, 2);
    put(head + kMetaAt, meta, 4);
    put(head + kRequestAt, frame->request, 8);
    put(head + kDeadlineAt, hf_settings.deadline_ms, 4);
    put(head + kCrcAt, crc32c(crc32c(0, head, kCrcAt), head + HF_HEADER, meta), 4);
}

static void begin(struct hf_frame* frame) {
    memset(frame->bytes, 0, HF_HEADER);
    frame->size = HF_HEADER;
}

void hf_write_open(struct hf_frame* frame, const struct hf_place* place) {
    begin(frame);
    add_text(frame, place->root->path, strlen(place->root->path));
    add_text(frame, place->path, place->bytes);
    memcpy(frame->bytes + frame->size, hf_settings.order, sizeof hf_settings.order);
    frame->size += sizeof hf_settings.order;
    finish(frame, kOpen, kDescriptor);
}

void hf_write_invalidate(struct hf_frame* frame, const struct hf_place* place) {
    begin(frame);
    add_text(frame, place->path, place->bytes);
    add_text(frame, "", 0);
    finish(frame, kInvalidate, 0);
}

// ---- replies ---------------------------------------------------------------------------------

enum hf_seen hf_look_at(const struct hf_reply* reply, size_t got, const struct hf_frame* request) {
    const char* head = reply->bytes;
    if (got < HF_HEADER) return HF_INCOMPLETE;
    size_t meta = take(head + kMetaAt, 4), body = take(head + kBodyAt, 8);
    if (memcmp(head, kMagic, sizeof kMagic) != 0 || head[4] != kVersion ||
        (take(head + kFlagsAt, 2) & kReply) == 0 || head[kOpAt] != request->bytes[kOpAt] ||
        take(head + kRequestAt, 8) != request->request)
        return HF_MALFORMED;
    bool success = take(head + kStatusAt, 2) == 0;
    if (meta > HF_MOST_META || body != 0) return HF_MALFORMED;
    if (got < HF_HEADER + meta) return HF_INCOMPLETE;
    if (got > HF_HEADER + meta) return HF_MALFORMED;
    if (got > sizeof reply->bytes) return success ? HF_MALFORMED : HF_FAILURE;
    if (take(head + kCrcAt, 4) != crc32c(crc32c(0, head, kCrcAt), head + HF_HEADER, meta))
        return HF_MALFORMED;
    return success ? HF_SUCCESS : HF_FAILURE;
}
