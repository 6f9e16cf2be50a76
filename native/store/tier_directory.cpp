#include "store/tier_directory.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/vfs.h>

#include <cerrno>
#include <cstdio>
#include <string_view>

#include "base/log.hpp"
#include "store/tmpfs.hpp"

namespace holdfast {
namespace {

constexpr std::string_view kLarge = "large/";
// Below that, names that lead through our descriptors cost more than pages.
constexpr std::uint64_t kFillsLargePages = 32 << 10;

}  // namespace

Result<TierDirectory> TierDirectory::make(const std::string& path, bool huge_pages) {
    if (::mkdir(path.c_str(), 0700) != 0)
        return system_failure(errno == EEXIST ? Code::HoldfastError : Code::BadInput,
                              "cannot create the tier directory " + path, errno);
    Fd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
    if (!fd) return system_failure(Code::HoldfastError, "cannot open " + path, errno);
    TierDirectory made(path, std::move(fd));
    if (huge_pages)
        if (Status status = made.add_large(); !status.ok())
            log_warning(path + " uses small pages only: " + status.message());
    return made;
}

Status TierDirectory::add_large() {
    struct statfs below{};
    if (::fstatfs(fd_.get(), &below) != 0 || below.f_type != TMPFS_MAGIC)
        return Status(Code::BadInput, "it is not on a tmpfs");
    // As large as the one that it stands for.
    auto top = make_tmpfs(below.f_blocks * static_cast<std::uint64_t>(below.f_bsize));
    if (!top.ok()) return top.take_status();
    std::string leads = "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(top->get());
    if (::symlinkat(leads.c_str(), fd_.get(), "large") != 0)
        return system_failure(Code::HoldfastError, "cannot create a link to them", errno);
    large_ = std::move(*top);
    utsname kernel{};
    ::uname(&kernel);
    size_first_ = goes_by_size(kernel.release);
    return {};
}

TierDirectory::Place TierDirectory::place_of(const std::string& name) const {
    if (!name.starts_with(kLarge)) return {fd_, name.c_str()};
    return {large_, name.c_str() + kLarge.size()};
}

TierDirectory::TierDirectory(TierDirectory&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::move(other.fd_)),
      large_(std::move(other.large_)),
      size_first_(other.size_first_),
      next_(other.next_.load()) {}

TierDirectory::~TierDirectory() {
    if (!fd_) return;
    struct stat own{}, there{};
    // Whoever starts after us may have made one of that name by now.
    bool ours = ::fstat(fd_.get(), &own) == 0 && ::lstat(path_.c_str(), &there) == 0 &&
                own.st_ino == there.st_ino && own.st_dev == there.st_dev;
    // Takes no further descriptor: there may be none left.
    if (DIR* list = ::fdopendir(fd_.release())) {
        while (dirent* entry = ::readdir(list)) ::unlinkat(::dirfd(list), entry->d_name, 0);
        ::closedir(list);
    }
    if (ours) ::rmdir(path_.c_str());
}

Status TierDirectory::failure(const std::string& what, int error) const {
    if (error == ENOSPC || error == EDQUOT || error == ENOMEM)
        return Status(Code::Full, "no room left in " + path_);
    if (error == EMFILE || error == ENFILE)
        return Status(Code::Busy, "the agent has too many open files right now; try again");
    if (error == ENOENT)
        return Status(Code::Damaged,
                      "the tier directory " + path_ +
                          " or a file in it was removed while the agent was using it");
    return system_failure(Code::Damaged, what + " in " + path_, error);
}

Result<TierDirectory::NewFile> TierDirectory::make_file(bool large) {
    NewFile file;
    file.number = next_++;
    if (large) file.place = kLarge;
    file.name = file.place + "new-" + std::to_string(file.number);
    auto [directory, name] = place_of(file.name);
    file.fd.reset(::openat(directory.get(), name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0400));
    if (!file.fd) return failure("cannot create a file", errno);
    return file;
}

Result<TierDirectory::NewFile> TierDirectory::create(std::uint64_t size) {
    auto file = make_file(large_ && size >= kFillsLargePages);
    if (file.ok()) announce(file->fd, size);
    return file;
}

// Where it would not help, pages would be cleared in vain. If it fails, so will what is written.
void TierDirectory::announce(const Fd& file, std::uint64_t size) const {
    if (size_first_ && size >= kFillsLargePages)
        (void)!::ftruncate(file.get(), static_cast<off_t>(size));
}

Result<TierDirectory::Nameless> TierDirectory::make_nameless() {
    auto file = make_file(static_cast<bool>(large_));
    if (!file.ok()) return file.take_status();
    auto reading = open(file->name);
    remove(file->name);
    if (!reading.ok()) return reading.take_status();
    return Nameless{std::move(file->fd), std::move(*reading)};
}

Status TierDirectory::publish(const std::string& temporary, const std::string& name) {
    Place from = place_of(temporary), to = place_of(name);
    if (::renameat(from.directory.get(), from.name, to.directory.get(), to.name) != 0)
        return failure("cannot rename a file", errno);
    return {};
}

Result<Fd> TierDirectory::open(const std::string& name) const {
    auto [directory, inside] = place_of(name);
    Fd fd(::openat(directory.get(), inside, O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (!fd) return failure("cannot open a file", errno);
    return fd;
}

void TierDirectory::remove(const std::string& name) const {
    auto [directory, inside] = place_of(name);
    ::unlinkat(directory.get(), inside, 0);
}

bool TierDirectory::has_room(std::uint64_t bytes, std::uint64_t most) const {
    struct statfs now{};
    if (::fstatfs(large_ ? large_.get() : fd_.get(), &now) != 0 || now.f_blocks == 0) return true;
    auto block = static_cast<std::uint64_t>(now.f_bsize);
    if (bytes > now.f_bavail * block) return false;
    return !large_ || (bytes <= most && (now.f_blocks - now.f_bfree) * block <= most - bytes);
}

std::string TierDirectory::path_of(const std::string& name) const {
    return path_ + "/" + name;
}

}  // namespace holdfast
