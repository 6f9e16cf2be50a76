#include "store/directory.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>

namespace holdfast {

Result<TierDirectory> TierDirectory::make(const std::string& path) {
    if (::mkdir(path.c_str(), 0700) != 0)
        return system_failure(Code::HoldfastError, "cannot make the tier directory " + path, errno);
    Fd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
    if (!fd) return system_failure(Code::HoldfastError, "cannot open " + path, errno);
    return TierDirectory(path, std::move(fd));
}

TierDirectory::TierDirectory(TierDirectory&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::move(other.fd_)), next_(other.next_.load()) {}

TierDirectory::~TierDirectory() {
    if (!fd_) return;
    // Takes no further descriptor: there may be none left.
    if (DIR* list = ::fdopendir(fd_.release())) {
        while (dirent* entry = ::readdir(list)) ::unlinkat(::dirfd(list), entry->d_name, 0);
        ::closedir(list);
    }
    ::rmdir(path_.c_str());
}

Status TierDirectory::failure(const std::string& what, int error) const {
    if (error == ENOSPC || error == EDQUOT || error == ENOMEM)
        return Status(Code::Full, "no room left in " + path_);
    if (error == EMFILE || error == ENFILE)
        return Status(Code::Busy, "the agent has too many open files at this moment; try again");
    if (error == ENOENT)
        return Status(Code::Damaged, "the tier directory " + path_ +
                                         " or a file in it was removed underneath the agent");
    return system_failure(Code::Damaged, what + " in " + path_, error);
}

Result<TierDirectory::NewFile> TierDirectory::create() {
    NewFile file;
    file.number = next_++;
    file.name = "new-" + std::to_string(file.number);
    file.fd.reset(
        ::openat(fd_.get(), file.name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0400));
    if (!file.fd) return failure("cannot create a file", errno);
    return file;
}

Result<TierDirectory::Nameless> TierDirectory::make_nameless() {
    auto file = create();
    if (!file.ok()) return file.take_status();
    auto reading = open(file->name);
    remove(file->name);
    if (!reading.ok()) return reading.take_status();
    return Nameless{std::move(file->fd), std::move(*reading)};
}

Status TierDirectory::publish(const std::string& temporary, const std::string& name) {
    if (::renameat(fd_.get(), temporary.c_str(), fd_.get(), name.c_str()) != 0)
        return failure("cannot rename a file", errno);
    return {};
}

Result<Fd> TierDirectory::open(const std::string& name) const {
    Fd fd(::openat(fd_.get(), name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (!fd) return failure("cannot open a file", errno);
    return fd;
}

void TierDirectory::remove(const std::string& name) const {
    ::unlinkat(fd_.get(), name.c_str(), 0);
}

}  // namespace holdfast
