// The calls that change files or their names: the path leaves the cache of all nodes first, then
// the shared file system is changed as ever.
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <utime.h>

#include "preload/shim.h"

void hf_changes(int directory, const char* path, bool follow) {
    if (!hf_active()) return;
    int saved = errno;
    struct hf_place named, real;
    bool below = hf_below(directory, path, &named);
    // A name outside may lead into a root, but this process is told of paths there only by those
    // who have them: such a name is looked up as well.
    bool leads = hf_really_below(directory, path, follow, &real);
    if (below) hf_say_leaves(&named);
    if (leads && !(below && strcmp(named.path, real.path) == 0)) hf_say_leaves(&real);
    errno = saved;
}

// ---- by name ---------------------------------------------------------------------------------

#define CHANGES(result, name, follow, directory, path, parameters, arguments) \
    HF_NEXT(name);                                                            \
    HF_PUBLIC result name parameters {                                        \
        hf_changes(directory, path, follow);                                  \
        return NEXT(name) arguments;                                          \
    }
#define CHANGES_TWO(result, name, from_at, from, to_at, to, parameters, arguments) \
    HF_NEXT(name);                                                                 \
    HF_PUBLIC result name parameters {                                             \
        hf_changes(from_at, from, false);                                          \
        hf_changes(to_at, to, false);                                              \
        return NEXT(name) arguments;                                               \
    }
#define HERE AT_FDCWD

CHANGES(int, unlink, false, HERE, path, (const char* path), (path))
CHANGES(int, unlinkat, false, at, path, (int at, const char* path, int flags), (at, path, flags))
CHANGES(int, rmdir, false, HERE, path, (const char* path), (path))
CHANGES(int, remove, false, HERE, path, (const char* path), (path))
CHANGES(int, symlink, false, HERE, path, (const char* to, const char* path), (to, path))
CHANGES(int, symlinkat, false, at, path, (const char* to, int at, const char* path), (to, at, path))
CHANGES(int, truncate, true, HERE, path, (const char* path, off_t size), (path, size))
HF_PUBLIC int truncate64(const char* path, off64_t size) __attribute__((alias("truncate")));

CHANGES_TWO(int, rename, HERE, from, HERE, to, (const char* from, const char* to), (from, to))
CHANGES_TWO(int, renameat, a, from, b, to, (int a, const char* from, int b, const char* to),
            (a, from, b, to))
CHANGES_TWO(int, renameat2, a, from, b, to,
            (int a, const char* from, int b, const char* to, unsigned flags),
            (a, from, b, to, flags))
CHANGES_TWO(int, link, HERE, from, HERE, to, (const char* from, const char* to), (from, to))
CHANGES_TWO(int, linkat, a, from, b, to,
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

// The file is new and has a name that nobody can have cached; it leaves before it is written to.
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
