#include "countfs/mount.hpp"

#include <sys/mount.h>

#include <cstdlib>

#include "base/thread.hpp"

namespace holdfast::storage {

namespace {

// As many requests may sleep at once before others must wait.
constexpr int kThreads = 64;

void begin(void*, fuse_conn_info* connection) {
    // The kernel reads ahead in the background: reads that hang must leave room for others.
    connection->max_background = kThreads - 8;
    // Without these, each name that a program asks about is seen as one lookup of that name.
    connection->want &= ~static_cast<unsigned>(FUSE_CAP_READDIRPLUS | FUSE_CAP_READDIRPLUS_AUTO);
}

fuse_lowlevel_ops all_operations() {
    fuse_lowlevel_ops operations{};
    operations.init = begin;
    add_file_operations(operations);
    add_attribute_operations(operations);
    add_name_operations(operations);
    return operations;
}

}  // namespace

CountingMount::CountingMount(Storage& common, const std::string& point)
    : storage(common), point_(point) {
    root_.fd = Fd(::fcntl(storage.root.get(), F_DUPFD_CLOEXEC, 0));
}

bool CountingMount::start() {
    made_ = ::mkdir(point_.c_str(), 0755) == 0;
    static const fuse_lowlevel_ops operations = all_operations();
    // Whoever finds the mount finds the process behind it by this name.
    std::string options = "allow_other,default_permissions,subtype=holdfast-storage,fsname=" +
                          std::to_string(::getpid());
    std::string words[] = {"countfs", "-o", options};
    char* pointers[] = {words[0].data(), words[1].data(), words[2].data()};
    fuse_args arguments{3, pointers, 0};
    session_ = fuse_session_new(&arguments, &operations, sizeof operations, this);
    fuse_opt_free_args(&arguments);
    if (session_ == nullptr || fuse_session_mount(session_, point_.c_str()) != 0) return false;
    for (int i = 0; i < kThreads; ++i) start_thread([this] { serve(); }).detach();
    return true;
}

void CountingMount::unmount() const {
    ::umount2(point_.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW);
    if (made_) ::rmdir(point_.c_str());
}

std::string CountingMount::path(fuse_ino_t parent, const char* name) {
    std::string result = path(parent);
    if (!result.empty()) result.push_back('/');
    return result.append(name);
}

void CountingMount::serve() {
    fuse_buf request{};
    while (!fuse_session_exited(session_)) {
        int size = fuse_session_receive_buf(session_, &request);
        if (size == -EINTR) continue;
        if (size <= 0) break;  // it is no longer mounted anywhere
        fuse_session_process_buf(session_, &request);
    }
    std::free(request.mem);
}

}  // namespace holdfast::storage
