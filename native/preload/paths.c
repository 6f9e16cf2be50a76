// From what a program calls a file to the one name that the agents know it by.
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/shim.h"

// Appends the parts of a path, each with a slash before it. False if it goes back by "..", ends as
// a directory's name does, or is too long: the file system knows best what that is.
static bool append(struct hf_place* place, const char* path) {
    for (;;) {
        bool slash = *path == '/';
        while (*path == '/') ++path;
        size_t bytes = strcspn(path, "/");
        if (bytes == 0) return !slash;
        if (bytes == 2 && path[0] == '.' && path[1] == '.') return false;
        if (bytes != 1 || path[0] != '.') {
            if (place->bytes + bytes + 2 > sizeof place->path) return false;
            place->path[place->bytes] = '/';
            memcpy(place->path + place->bytes + 1, path, bytes);
            place->bytes += bytes + 1;
        } else if (path[1] == 0) {
            return false;  // "x/." is a directory
        }
        path += bytes;
    }
}

// The directory that a relative path begins at, as the kernel calls it.
static bool begin_at(struct hf_place* place, int directory) {
    long bytes;
    if (directory == AT_FDCWD) {
        bytes = syscall(SYS_getcwd, place->path, sizeof place->path) - 1;
    } else {
        char link[32] = "/proc/self/fd/";
        char digits[12];
        size_t count = 0, at = strlen(link);
        if (directory < 0) return false;
        for (int rest = directory; rest > 0 || count == 0; rest /= 10)
            digits[count++] = (char)('0' + rest % 10);
        while (count > 0) link[at++] = digits[--count];
        bytes = syscall(SYS_readlinkat, AT_FDCWD, link, place->path, sizeof place->path);
    }
    // An unreachable or removed directory does not begin with a slash, or is found not to be there.
    if (bytes <= 0 || bytes >= (long)sizeof place->path || place->path[0] != '/') return false;
    place->bytes = bytes == 1 ? 0 : (size_t)bytes;
    return true;
}

static bool starts_with(const struct hf_place* place, const char* root, size_t bytes) {
    return place->bytes > bytes && memcmp(place->path, root, bytes) == 0 &&
           place->path[bytes] == '/';
}

// Whether it lies below a root, under whichever of its two names; the given one is put there.
static bool match(struct hf_place* place) {
    for (size_t i = 0; i < hf_settings.count; ++i) {
        const struct hf_root* root = &hf_settings.roots[i];
        size_t given = strlen(root->path), real = strlen(root->alias);
        place->root = root;
        if (starts_with(place, root->path, given)) return true;
        if (!starts_with(place, root->alias, real)) continue;
        size_t rest = place->bytes - real;
        if (given + rest + 1 > sizeof place->path) return false;
        memmove(place->path + given, place->path + real, rest);
        memcpy(place->path, root->path, given);
        place->bytes = given + rest;
        return true;
    }
    return false;
}

bool hf_spelled(int directory, const char* path, struct hf_place* place) {
    place->bytes = 0;
    if (path == NULL || *path == 0) return false;
    if (*path != '/' && !begin_at(place, directory)) return false;
    if (!append(place, path)) return false;
    place->path[place->bytes] = 0;
    return true;
}

bool hf_below(int directory, const char* path, struct hf_place* place) {
    if (!hf_spelled(directory, path, place) || !match(place)) return false;
    place->path[place->bytes] = 0;
    return true;
}

// What is left of one name behind another; NULL if it does not lie there.
static const char* behind(const char* path, const char* above) {
    size_t bytes = strlen(above);
    return strncmp(path, above, bytes) == 0 && (path[bytes] == '/' || path[bytes] == 0)
               ? path + bytes
               : NULL;
}

const char* hf_touched(const struct hf_root* root, const struct hf_place* place, bool name) {
    // A root that is there under several names is compared with each of these, but once by its own.
    bool first = hf_root_of(root->path, strlen(root->path)) == root;
    const char* names[] = {first ? root->path : root->alias, root->alias};
    for (size_t i = 0; i < 2; ++i) {
        const char* rest = behind(place->path, names[i]);
        if (rest != NULL && *rest != 0) return rest;
        if (name && place->bytes > 0 && behind(names[i], place->path) != NULL) return "";
    }
    return NULL;
}

// Where a path leads, without opening what is there; -1 if nowhere.
static int stand_for(int directory, const char* path, int flags) {
    return (int)syscall(SYS_openat, directory, path, O_PATH | O_CLOEXEC | flags, 0);
}

static bool end_with(struct hf_place* place, int directory, const char* name) {
    place->bytes = 0;
    bool found =
        directory >= 0 && begin_at(place, directory) && (name == NULL || append(place, name));
    if (directory >= 0) syscall(SYS_close, directory);
    if (found) place->path[place->bytes] = 0;
    return found;
}

bool hf_resolved(int directory, const char* path, bool follow, struct hf_place* place) {
    if (path == NULL || *path == 0) return false;
    int there = follow ? stand_for(directory, path, 0) : -1;
    if (there >= 0) return end_with(place, there, NULL);
    // It is to be made, or the name itself changes: its directory is there.
    size_t bytes = strlen(path);
    struct split {
        char parent[HF_TABLE_PATH], name[256];
    };
    HF_BORROW(struct split, parts);
    if (parts == NULL) return false;
    char *parent = parts->parent, *name = parts->name;
    while (bytes > 1 && path[bytes - 1] == '/') --bytes;
    size_t from = bytes;
    while (from > 0 && path[from - 1] != '/') --from;
    if (bytes - from >= sizeof parts->name || from + 2 > sizeof parts->parent) return false;
    memcpy(name, path + from, bytes - from);
    name[bytes - from] = 0;
    memcpy(parent, path, from);
    strcpy(parent + from, ".");
    return end_with(place, stand_for(directory, parent, O_DIRECTORY), name);
}

struct hf_root* hf_root_of(const char* path, size_t root_bytes) {
    for (size_t i = 0; i < hf_settings.count; ++i) {
        struct hf_root* root = &hf_settings.roots[i];
        if (strlen(root->path) == root_bytes && memcmp(root->path, path, root_bytes) == 0)
            return root;
    }
    return NULL;
}
