// The calls that change files or their names: the path is invalidated at all nodes first, then
// the shared file system is changed as ever.
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <utime.h>

#include "preload/shim.h"

static void invalidate(const struct hf_root* root, const char* rest) {
    HF_BORROW(struct hf_place, place);
    size_t top = strlen(root->path), bytes = strlen(rest);
    if (place == NULL || top + bytes + 1 > sizeof place->path) return;
    place->root = root;
    place->bytes = top + bytes;
    memcpy(place->path, root->path, top);
    memcpy(place->path + top, rest, bytes + 1);
    hf_invalidate(place);
}

// Whether there is a directory that is not empty.
static bool is_full(int directory, const char* path) {
    struct names {
        char room[1024];
    };
    int file = (int)syscall(SYS_openat, directory, path,
                            O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);
    if (file < 0) return false;
    HF_BORROW(struct names, names);
    // Two are there always.
    int count = 0;
    for (long got; names != NULL && count < 3 &&
                   (got = syscall(SYS_getdents64, file, names->room, sizeof names->room)) > 0;)
        for (long at = 0; at < got; ++count) {
            uint16_t bytes;  // behind inode and offset
            memcpy(&bytes, names->room + at + 16, sizeof bytes);
            at += bytes;
        }
    syscall(SYS_close, file);
    return count >= 3;
}

// What becomes of a path. Of a name: what it leads to is another thing afterwards, and so is all
// below it. Nothing can be put where a directory is that is not empty, and nothing removes one.
enum change { CONTENT, NAME, NAME_UNLESS_FULL };

static void changes(int directory, const char* path, bool follow, enum change change) {
    if (!hf_active()) return;
    int saved = errno;
    struct both {
        struct hf_place named, real;
    };
    HF_BORROW(struct both, places);
    if (places == NULL) return;
    bool is_named = hf_spelled(directory, path, &places->named);
    // A name outside may lead into a root, but this process is told of paths there only by those
    // who have them: such a name is looked up as well.
    bool is_real = hf_resolved(directory, path, follow, &places->real);
    // Roots may lie in one another, or be one directory under two names.
    for (size_t i = 0; i < hf_settings.count; ++i) {
        const struct hf_root* root = &hf_settings.roots[i];
        const char* one = is_named ? hf_touched(root, &places->named, change != CONTENT) : NULL;
        const char* other = is_real ? hf_touched(root, &places->real, change != CONTENT) : NULL;
        if (one == NULL && other == NULL) continue;
        if (change == NAME_UNLESS_FULL && is_full(directory, path)) break;
        if (one != NULL) invalidate(root, one);
        if (other != NULL && (one == NULL || strcmp(one, other) != 0)) invalidate(root, other);
    }
    errno = saved;
}

void hf_changes(int directory, const char* path, bool follow) {
    changes(directory, path, follow, CONTENT);
}

// ---- by name ---------------------------------------------------------------------------------

#define CHANGES(result, name, follow, directory, path, parameters, arguments) \
    HF_NEXT(name);                                                            \
    HF_PUBLIC result name parameters {                                        \
        hf_changes(directory, path, follow);                                  \
        return NEXT(name) arguments;                                          \
    }
#define CHANGES_NAME(result, name, directory, path, parameters, arguments) \
    HF_NEXT(name);                                                         \
    HF_PUBLIC result name parameters {                                     \
        changes(directory, path, false, NAME_UNLESS_FULL);                 \
        return NEXT(name) arguments;                                       \
    }
#define CHANGES_NAMES(result, name, from_at, from, to_at, to, parameters, arguments) \
    HF_NEXT(name);                                                                   \
    HF_PUBLIC result name parameters {                                               \
        changes(from_at, from, false, NAME);                                         \
        changes(to_at, to, false, NAME_UNLESS_FULL);                                 \
        return NEXT(name) arguments;                                                 \
    }
#define HERE AT_FDCWD

CHANGES_NAME(int, unlink, HERE, path, (const char* path), (path))
CHANGES_NAME(int, unlinkat, at, path, (int at, const char* path, int flags), (at, path, flags))
CHANGES_NAME(int, rmdir, HERE, path, (const char* path), (path))
CHANGES_NAME(int, remove, HERE, path, (const char* path), (path))
CHANGES_NAME(int, symlink, HERE, path, (const char* to, const char* path), (to, path))
CHANGES_NAME(int, symlinkat, at, path, (const char* to, int at, const char* path), (to, at, path))
CHANGES(int, truncate, true, HERE, path, (const char* path, off_t size), (path, size))
HF_PUBLIC int truncate64(const char* path, off64_t size) __attribute__((alias("truncate")));

CHANGES_NAMES(int, rename, HERE, from, HERE, to, (const char* from, const char* to), (from, to))
CHANGES_NAMES(int, renameat, a, from, b, to, (int a, const char* from, int b, const char* to),
              (a, from, b, to))
HF_NEXT(renameat2);
HF_PUBLIC int renameat2(int a, const char* from, int b, const char* to, unsigned flags) {
    changes(a, from, false, NAME);
    changes(b, to, false, flags & RENAME_EXCHANGE ? NAME : NAME_UNLESS_FULL);
    return NEXT(renameat2)(a, from, b, to, flags);
}
CHANGES_NAMES(int, link, HERE, from, HERE, to, (const char* from, const char* to), (from, to))
CHANGES_NAMES(int, linkat, a, from, b, to,
              (int a, const char* from, int b, const char* to, int flags), (a, from, b, to, flags))

CHANGES(int, chmod, true, HERE, path, (const char* path, mode_t mode), (path, mode))
CHANGES(int, fchmodat, true, at, path, (int at, const char* path, mode_t mode, int flags),
        (at, path, mode, flags))
CHANGES(int, chown, true, HERE, path, (const char* path, uid_t user, gid_t group),
        (path, user, group))
CHANGES(int, lchown, false, HERE, path, (const char* path, uid_t user, gid_t group),
        (path, user, group))
CHANGES(int, fchownat, !(flags & AT_SYMLINK_NOFOLLOW), at, path,
        (int at, const char* path, uid_t user, gid_t group, int flags),
        (at, path, user, group, flags))
CHANGES(int, utime, true, HERE, path, (const char* path, const struct utimbuf* times),
        (path, times))
CHANGES(int, utimes, true, HERE, path, (const char* path, const struct timeval times[2]),
        (path, times))
CHANGES(int, utimensat, !(flags & AT_SYMLINK_NOFOLLOW), at, path,
        (int at, const char* path, const struct timespec times[2], int flags),
        (at, path, times, flags))
CHANGES(int, setxattr, true, HERE, path,
        (const char* path, const char* name, const void* value, size_t size, int flags),
        (path, name, value, size, flags))
CHANGES(int, removexattr, true, HERE, path, (const char* path, const char* name), (path, name))

// ---- names that the C library makes up -------------------------------------------------------

// The file is new and has a name that nobody can have cached; it is invalidated before it is
// written to.
#define MAKES(name, parameters, arguments)              \
    HF_NEXT(name);                                      \
    HF_PUBLIC int name parameters {                     \
        int made = NEXT(name) arguments;                \
        if (made >= 0) hf_changes(HERE, pattern, true); \
        return made;                                    \
    }

MAKES(mkstemp, (char* pattern), (pattern))
MAKES(mkostemp, (char* pattern, int flags), (pattern, flags))
MAKES(mkstemps, (char* pattern, int suffix), (pattern, suffix))
MAKES(mkostemps, (char* pattern, int suffix, int flags), (pattern, suffix, flags))
HF_PUBLIC int mkstemp64(char* pattern) __attribute__((alias("mkstemp")));
HF_PUBLIC int mkostemp64(char* pattern, int flags) __attribute__((alias("mkostemp")));
HF_PUBLIC int mkstemps64(char* pattern, int suffix) __attribute__((alias("mkstemps")));
HF_PUBLIC int mkostemps64(char* pattern, int suffix, int flags) __attribute__((alias("mkostemps")));

// ---- where names mean something else from then on --------------------------------------------

HF_NEXT(chroot);
HF_PUBLIC int chroot(const char* path) {
    int result = NEXT(chroot)(path);
    if (result == 0) hf_switch_off();
    return result;
}
