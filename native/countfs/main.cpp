// A storage that counts what is asked of it, is as slow as it is told to be, and misbehaves on
// demand: it stands for the shared file system in tests, demos and benchmarks.
//
// usage: countfs DIRECTORY OPEN_DELAY OPERATION_DELAY BANDWIDTH MOUNT_POINT...
//
// Shows the directory at each mount point; seconds, bytes per second (0: no limit). Standard input
// is a stream socket of the process that started it. Requests and answers on it are a length (32
// bits) and fields that end with a zero each:
//
//     (start)                          -> "" or a complaint
//     counts                           -> for each path: mount, path, one field per event
//     reset                            -> nothing
//     trouble PATH OPERATION ERROR     -> nothing
//     heal                             -> nothing
//
// It unmounts and ends when the socket closes, or at SIGTERM.
#include <sys/resource.h>
#include <sys/socket.h>

#include <climits>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "countfs/mount.hpp"

using namespace holdfast;
using namespace holdfast::storage;

namespace {

constexpr int kControl = STDIN_FILENO;
std::string complaint;  // what libfuse said last while mounting

void note(fuse_log_level, const char* format, va_list values) {
    char line[500];
    std::vsnprintf(line, sizeof line, format, values);
    complaint.assign(line, std::strcspn(line, "\n"));
}

bool receive(void* into, std::size_t size) {
    return ::recv(kControl, into, size, MSG_WAITALL) == static_cast<ssize_t>(size);
}

bool hear(std::vector<std::string>& fields) {
    std::uint32_t length;
    if (!receive(&length, sizeof length)) return false;
    std::string text(length, '\0');
    if (length != 0 && !receive(text.data(), length)) return false;
    fields.clear();
    for (std::size_t begin = 0; begin < text.size(); begin += fields.back().size() + 1)
        fields.emplace_back(text.c_str() + begin);
    return true;
}

bool say(const std::string& text) {
    auto length = static_cast<std::uint32_t>(text.size());
    std::string frame(reinterpret_cast<const char*>(&length), sizeof length);
    frame += text;
    for (std::size_t sent = 0; sent < frame.size();) {
        ssize_t more = ::send(kControl, frame.data() + sent, frame.size() - sent, MSG_NOSIGNAL);
        if (more < 0) return false;
        sent += static_cast<std::size_t>(more);
    }
    return true;
}

using Mounts = std::vector<std::unique_ptr<CountingMount>>;

void obey(Storage& storage, const Mounts& mounts) {
    std::vector<std::string> fields;
    while (hear(fields) && !fields.empty()) {
        std::string answer;
        if (fields[0] == "counts") {
            for (std::size_t i = 0; i < mounts.size(); ++i) mounts[i]->counts.write(i, answer);
        } else if (fields[0] == "reset") {
            for (const auto& mount : mounts) mount->counts.reset();
        } else if (fields[0] == "trouble" && fields.size() == 4) {
            storage.troubles.set(fields[1], fields[2], std::atoi(fields[3].c_str()));
        } else if (fields[0] == "heal") {
            storage.troubles.heal();
        }
        if (!say(answer)) return;
    }
}

// Each file that the kernel knows of takes a descriptor.
void raise_descriptor_limit() {
    rlimit limit{};
    limit.rlim_cur = limit.rlim_max = 1 << 20;
    if (::setrlimit(RLIMIT_NOFILE, &limit) == 0) return;
    ::getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

int main(int count, char** arguments) {
    if (count < 6) {
        std::fputs(
            "usage: countfs DIRECTORY OPEN_DELAY OPERATION_DELAY BANDWIDTH "
            "MOUNT_POINT...\n",
            stderr);
        return 2;
    }
    struct sigaction end{};
    end.sa_handler = [](int) { ::shutdown(kControl, SHUT_RD); };  // as if our owner had died
    ::sigaction(SIGTERM, &end, nullptr);
    ::umask(0);  // the kernel has applied the caller's
    raise_descriptor_limit();
    fuse_set_log_func(note);

    Storage storage{Fd(::open(arguments[1], O_PATH | O_DIRECTORY | O_CLOEXEC)),
                    {std::atof(arguments[2]), std::atof(arguments[3]), std::atof(arguments[4])},
                    {}};
    if (!storage.root) {
        say(std::string(arguments[1]) + ": " + std::strerror(errno));
        return 1;
    }
    Mounts mounts;
    bool mounted = true;
    for (int i = 5; i < count && mounted; ++i) {
        mounts.push_back(std::make_unique<CountingMount>(storage, arguments[i]));
        mounted = mounts.back()->start();
    }
    if (say(mounted ? "" : complaint) && mounted) obey(storage, mounts);
    storage.troubles.heal();
    for (const auto& mount : mounts) mount->unmount();
    // Threads may still serve what is mounted elsewhere: nothing is torn down under them.
    std::_Exit(mounted ? 0 : 1);
}
