// Filters of system calls (seccomp). One that does not expect sockets kills the program at our
// first call, so whoever has more filters than `holdfast run` had, which asked the agent itself, is
// left alone.
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/shim.h"

// Of this process since it began: filters are inherited, and never taken away.
enum { UNKNOWN, NONE, SOME };
static _Atomic int more;
static _Atomic bool may_come;  // then each thread is looked at each time

static bool value_of(const char* line, const char* name, uint64_t* out) {
    size_t bytes = strlen(name);
    if (strncmp(line, name, bytes) != 0) return false;
    *out = 0;
    for (line += bytes; *line == '\t' || *line == ' ';) ++line;
    for (; *line >= '0' && *line <= '9'; ++line) *out = *out * 10 + (uint64_t)(*line - '0');
    return true;
}

// As preloading.py counts them: kernels before 5.9 tell only whether there is one.
static bool count_filters(uint64_t* count) {
    int file = (int)syscall(SYS_openat, AT_FDCWD, "/proc/thread-self/status", O_RDONLY | O_CLOEXEC);
    if (file < 0) return false;
    char piece[256], line[32];
    size_t bytes = 0;
    bool found = false;
    for (long got; (got = syscall(SYS_read, file, piece, sizeof piece)) > 0;)
        for (long i = 0; i < got; ++i) {
            if (piece[i] != '\n') {
                if (bytes + 1 < sizeof line) line[bytes++] = piece[i];
                continue;
            }
            line[bytes] = 0;
            bytes = 0;
            if (value_of(line, "Seccomp:", count) || value_of(line, "Seccomp_filters:", count))
                found = true;
        }
    syscall(SYS_close, file);
    return found;
}

bool hf_is_filtered(void) {
    if (more == NONE && !may_come) return false;
    if (more == SOME) return true;
    int saved = errno;
    uint64_t count;
    bool filtered = !count_filters(&count) || count != hf_settings.filters;
    if (!may_come) more = filtered ? SOME : NONE;
    return hf_keep_errno(saved, filtered);
}

// Filters without privileges need the one before the other, however they are set.
HF_NEXT(prctl);
HF_PUBLIC int prctl(int option, ...) {
    va_list rest;
    va_start(rest, option);
    unsigned long a = va_arg(rest, unsigned long), b = va_arg(rest, unsigned long);
    unsigned long c = va_arg(rest, unsigned long), d = va_arg(rest, unsigned long);
    va_end(rest);
    if (option == PR_SET_NO_NEW_PRIVS || option == PR_SET_SECCOMP) may_come = true;
    return NEXT(prctl)(option, a, b, c, d);
}
