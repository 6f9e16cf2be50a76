// The process behind a mount: shows roots of the shared file system, read-only, at a mount point.
//
// usage: holdfast_mount point=DIR broadcast=DIR|spread=DIR... [control=SOCKET] [agent=ADDRESS] ...
//
// Says on standard output, in one line, that it is mounted ("mounted"), or why it is not. Ends with
// 0 when it was unmounted, by whomever, or told to end by SIGTERM, SIGINT or SIGHUP, when it
// unmounts itself.
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "mount/control.hpp"
#include "mount/mount.hpp"
#include "mount/workers.hpp"

using namespace holdfast;
using namespace holdfast::mount;

namespace {

std::string complaint;  // what libfuse said last while mounting

void note(fuse_log_level, const char* format, va_list values) {
    char line[500];
    std::vsnprintf(line, sizeof line, format, values);
    complaint.assign(line, std::strcspn(line, "\n"));
}

void say(const std::string& line) {
    std::printf("%s\n", line.c_str());
    std::fflush(stdout);
}

int refuse(const std::string& why) {
    say(why);
    return 1;
}

void begin(void* data, fuse_conn_info* connection) {
    auto& mount = *static_cast<Mount*>(data);
    unsigned can = connection->capable;
    mount.opens_itself = (can & FUSE_CAP_NO_OPEN_SUPPORT) != 0;
    mount.opens_directories_itself = (can & FUSE_CAP_NO_OPENDIR_SUPPORT) != 0;
    connection->want |=
        can & (FUSE_CAP_READDIRPLUS | FUSE_CAP_READDIRPLUS_AUTO | FUSE_CAP_CACHE_SYMLINKS |
               FUSE_CAP_PARALLEL_DIROPS | FUSE_CAP_ASYNC_READ);
    // An inode is one version: nothing to find out by its times. Locks are the kernel's own.
    connection->want &= ~static_cast<unsigned>(FUSE_CAP_AUTO_INVAL_DATA | FUSE_CAP_FLOCK_LOCKS |
                                               FUSE_CAP_POSIX_LOCKS | FUSE_CAP_EXPORT_SUPPORT);
    connection->max_background = 64;
}

fuse_lowlevel_ops all_operations() {
    fuse_lowlevel_ops operations{};
    operations.init = begin;
    add_name_operations(operations);
    add_directory_operations(operations);
    add_reading_operations(operations);
    return operations;
}

void raise_descriptor_limit() {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);
}

// Why this process could come to wait for itself; empty if it cannot.
std::string danger(const Settings& settings, const Guard& guard) {
    if (std::string file = guard.endangered(); !file.empty())
        return file + " is on a Holdfast mount; run it from elsewhere";
    for (const Root& root : settings.roots) {
        struct stat info{};
        if (::stat(root.path.c_str(), &info) == 0 && guard.is_ours(info.st_dev))
            return "the root " + root.path + " is on a Holdfast mount; name the original";
    }
    return {};
}

fuse_session* make_session(Mount& mount) {
    static const fuse_lowlevel_ops operations = all_operations();
    // Whoever finds the mount finds the process behind it by its name.
    std::string options = "ro,nosuid,nodev,default_permissions,subtype=holdfast,fsname=holdfast-" +
                          std::to_string(::getpid());
    std::string words[] = {"holdfast_mount", "-o", options};
    char* pointers[] = {words[0].data(), words[1].data(), words[2].data()};
    fuse_args arguments{3, pointers, 0};
    fuse_session* session = fuse_session_new(&arguments, &operations, sizeof operations, &mount);
    fuse_opt_free_args(&arguments);
    return session;
}

}  // namespace

int main(int count, char** words) {
    auto settings = parse_settings(count, words);
    if (!settings.ok()) return refuse(settings.status().message());
    if (::chdir("/") != 0) return refuse("cannot leave the working directory");
    Guard guard;
    if (std::string why = danger(*settings, guard); !why.empty()) return refuse(why);
    sigset_t ends;
    ::sigemptyset(&ends);
    for (int number : {SIGTERM, SIGINT, SIGHUP, SIGUSR1}) ::sigaddset(&ends, number);
    ::pthread_sigmask(SIG_BLOCK, &ends, nullptr);
    ::signal(SIGPIPE, SIG_IGN);
    raise_descriptor_limit();
    fuse_set_log_func(note);

    // It has threads from here on, and so have those below: nothing is torn down under them.
    Mount mount(*settings, guard);
    fuse_session* session = make_session(mount);
    if (session == nullptr || fuse_session_mount(session, settings->point.c_str()) != 0)
        std::_Exit(refuse(complaint.empty() ? "the mount failed" : complaint));
    guard = Guard();  // this one counts as well; nobody has been answered yet
    mount.attach(session);
    Workers workers(session, mount.counters.requests, [] { ::kill(::getpid(), SIGUSR1); });
    Control control(mount, workers);
    Status listening = control.listen();
    if (!listening.ok()) {
        fuse_session_unmount(session);
        std::_Exit(refuse(listening.message()));
    }
    if (!workers.start()) {
        fuse_session_unmount(session);
        std::_Exit(refuse("cannot start a thread; has the limit of processes been reached?"));
    }
    say("mounted");
    int number = 0;
    ::sigwait(&ends, &number);
    // Root does not need libfuse for it, which closes the descriptor that other threads read.
    if (number != SIGUSR1 && ::umount2(settings->point.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW) != 0)
        fuse_session_unmount(session);
    std::_Exit(0);  // threads may still answer whoever has something open
}
