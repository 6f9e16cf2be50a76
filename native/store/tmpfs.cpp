#include "store/tmpfs.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/passing.hpp"

namespace holdfast {
namespace {

// What the C library's headers of some systems lack.
constexpr unsigned kOpenCloexec = 1, kMountCloexec = 1;
constexpr unsigned kSetString = 1, kCreate = 6;
constexpr unsigned kNoSetuid = 2, kNoDevices = 4;

bool set(int context, const char* key, const char* value) {
    return ::syscall(SYS_fsconfig, context, kSetString, key, value, 0) == 0;
}

// -1, and errno says why.
int mount_here(const char* bytes) {
    int context = static_cast<int>(::syscall(SYS_fsopen, "tmpfs", kOpenCloexec));
    if (context < 0) return -1;
    int top = -1;
    // As large as what is written at once, and never larger than the file.
    if (set(context, "huge", "within_size") && set(context, "size", bytes) &&
        set(context, "nr_inodes", "0") && set(context, "mode", "0700") &&
        ::syscall(SYS_fsconfig, context, kCreate, nullptr, nullptr, 0) == 0)
        top = static_cast<int>(
            ::syscall(SYS_fsmount, context, kMountCloexec, kNoSetuid | kNoDevices));
    int error = errno;
    ::close(context);
    errno = error;
    return top;
}

bool write_text(const char* path, const char* text) {
    Fd file(::open(path, O_WRONLY | O_CLOEXEC));
    auto size = static_cast<ssize_t>(std::strlen(text));
    return file && ::write(file.get(), text, static_cast<std::size_t>(size)) == size;
}

// In a user namespace everybody may mount a tmpfs; who it belongs to is who we are.
bool become_own_master() {
    char users[64], groups[64];
    std::snprintf(users, sizeof users, "%u %u 1", ::geteuid(), ::geteuid());
    std::snprintf(groups, sizeof groups, "%u %u 1", ::getegid(), ::getegid());
    return ::unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 && write_text("/proc/self/uid_map", users) &&
           write_text("/proc/self/setgroups", "deny") && write_text("/proc/self/gid_map", groups);
}

// Between fork and exit: nothing here takes memory or a lock.
[[noreturn]] void mount_for_parent(int socket, const char* bytes) {
    int top = become_own_master() ? mount_here(bytes) : -1;
    int error = errno;
    iovec part{&error, sizeof error};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    Passing passing;
    if (top >= 0) passing.attach(message, &top, 1);
    ::sendmsg(socket, &message, MSG_NOSIGNAL);
    ::_exit(0);
}

Fd mount_in_child(const char* bytes) {
    int pair[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) return {};
    Fd ours(pair[0]), childs(pair[1]);
    pid_t child = ::fork();
    if (child < 0) return {};
    if (child == 0) mount_for_parent(childs.get(), bytes);
    childs.reset();
    int error = EPERM;
    iovec part{&error, sizeof error};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    Passing passing;
    passing.make_room(message);
    auto got = ::recvmsg(ours.get(), &message, MSG_CMSG_CLOEXEC);
    while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
    }
    Fd top;
    if (got > 0)
        for (Fd& came : Passing::take(message)) top = std::move(came);
    errno = error;
    return top;
}

}  // namespace

bool goes_by_size(const char* release) {
    int major = 0, minor = 0;
    std::sscanf(release, "%d.%d", &major, &minor);
    return major < 6 || (major == 6 && minor < 14);
}

Result<Fd> make_tmpfs(std::uint64_t bytes) {
    char text[32];
    std::snprintf(text, sizeof text, "%llu", static_cast<unsigned long long>(bytes));
    Fd top(mount_here(text));
    if (!top && errno == EPERM) top = mount_in_child(text);
    if (!top)
        return system_failure(Code::Unavailable, "cannot mount a tmpfs with huge pages", errno);
    return top;
}

}  // namespace holdfast
