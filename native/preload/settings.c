// What `holdfast run` has set, read once when a program starts.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "preload/shim.h"

struct hf_settings hf_settings;
static _Atomic bool active;

bool hf_active(void) {
    // Whoever became another user sees what that user may see.
    return active && !hf_is_filtered() && geteuid() == hf_settings.user;
}

void hf_switch_off(void) {
    active = false;
}

static bool text(const char* name, char* out, size_t room) {
    const char* value = getenv(name);
    if (value == NULL || *value != '/' || strlen(value) >= room) return false;
    strcpy(out, value);
    return true;
}

static bool number(const char* name, uint64_t most, uint64_t* out) {
    const char* value = getenv(name);
    if (value == NULL || *value < '0' || *value > '9') return false;
    char* end;
    *out = strtoull(value, &end, 10);
    return *end == 0 && *out <= most;
}

// The next of a list with colons between; NULL at its end, or if it is too long.
static const char* part(const char* list, char* out) {
    if (list == NULL || *list == 0) return NULL;
    size_t bytes = strcspn(list, ":");
    if (bytes == 0 || bytes >= HF_TABLE_PATH || *list != '/') return NULL;
    memcpy(out, list, bytes);
    out[bytes] = 0;
    return list + bytes + (list[bytes] == ':');
}

static bool roots(void) {
    const char* paths = getenv("HOLDFAST_SHIM_ROOTS");
    const char* aliases = getenv("HOLDFAST_SHIM_ALIASES");
    for (; hf_settings.count < HF_MOST_ROOTS; ++hf_settings.count) {
        struct hf_root* root = &hf_settings.roots[hf_settings.count];
        paths = part(paths, root->path);
        aliases = part(aliases, root->alias);
        if (paths == NULL || aliases == NULL) break;
    }
    return hf_settings.count > 0;
}

static int digit(char hex) {
    if (hex >= '0' && hex <= '9') return hex - '0';
    return hex >= 'a' && hex <= 'f' ? hex - 'a' + 10 : -1;
}

static uint64_t little_endian(const unsigned char* in, size_t bytes) {
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; ++i) value |= (uint64_t)in[i] << (8 * i);
    return value;
}

static bool order(void) {
    const char* hex = getenv("HOLDFAST_SHIM_ORDER");
    if (hex == NULL || strlen(hex) != 2 * sizeof hf_settings.order) return false;
    unsigned char bytes[sizeof hf_settings.order];
    for (size_t i = 0; i < sizeof bytes; ++i) {
        int high = digit(hex[2 * i]), low = digit(hex[2 * i + 1]);
        if (high < 0 || low < 0) return false;
        bytes[i] = (unsigned char)(16 * high + low);
    }
    memcpy(hf_settings.order, bytes, sizeof bytes);
    hf_settings.copies = (uint16_t)little_endian(bytes + HF_ORDER_COPIES_AT, 2);
    hf_settings.validate = bytes[HF_ORDER_VALIDATE_AT];
    hf_settings.largest = little_endian(bytes + HF_ORDER_LARGEST_AT, 8);
    return true;
}

static void begin_process(void) {
    hf_forget_connections();
    hf_take_asides_over();
}

__attribute__((constructor)) static void begin(void) {
    hf_find_all();
    hf_settings.user = geteuid();
    hf_settings.start = (uint32_t)getpid();
    if (!text("HOLDFAST_SHIM_SOCKET", hf_settings.socket, sizeof hf_settings.socket) ||
        !text("HOLDFAST_SHIM_TABLE", hf_settings.table, sizeof hf_settings.table) || !roots() ||
        !order() || !number("HOLDFAST_SHIM_FILTERS", UINT64_MAX, &hf_settings.filters) ||
        !number("HOLDFAST_SHIM_DEADLINE_MS", 3600 * 1000, &hf_settings.deadline_ms))
        return;
    begin_process();
    if (pthread_atfork(NULL, NULL, begin_process) != 0) return;
    active = true;
}
