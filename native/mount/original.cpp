#include "mount/original.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <climits>
#include <thread>

#include "base/clock.hpp"

namespace holdfast::mount {
namespace {

// The kernel takes no longer path at once.
constexpr std::size_t kPiece = PATH_MAX - NAME_MAX - 2;
// A directory that changes under our hands is read again for so long; then it is taken as it comes,
// which is how programs read the original.
constexpr auto kDeadline = std::chrono::milliseconds(500);
// It may still change in the moment between being found and being opened.
constexpr int kTries = 20;
constexpr auto kPause = std::chrono::milliseconds(5);

std::string by_number(const Fd& fd) {
    return "/proc/self/fd/" + std::to_string(fd.get());
}

}  // namespace

OriginalResult<Fd> open_original(const std::string& path, int flags) {
    Fd above;
    std::size_t at = 0;
    while (path.size() - at > kPiece) {
        auto end = path.rfind('/', at + kPiece);
        if (end == std::string::npos || end <= at) return {{}, ENAMETOOLONG};
        std::string piece = path.substr(at, end - at);
        Fd next(::openat(above ? above.get() : AT_FDCWD, piece.c_str(),
                         O_PATH | O_DIRECTORY | O_CLOEXEC));
        if (!next) return {{}, errno};
        above = std::move(next);
        at = end + 1;
    }
    Fd fd(::openat(above ? above.get() : AT_FDCWD, path.c_str() + at,
                   flags | O_NOFOLLOW | O_CLOEXEC));
    int error = fd ? 0 : errno;
    return {std::move(fd), error};
}

OriginalResult<Attributes> look_at_original(const std::string& path, const Guard& guard) {
    auto fd = open_original(path, O_PATH);
    if (fd.error != 0) return {{}, fd.error};
    struct stat info{};
    if (::fstatat(fd.value.get(), "", &info, AT_EMPTY_PATH) != 0) return {{}, errno};
    if (guard.is_ours(info.st_dev)) return {{}, ELOOP};
    return {Attributes::of(info), 0};
}

OriginalResult<std::string> link_of_original(const std::string& path) {
    auto fd = open_original(path, O_PATH);
    if (fd.error != 0) return {{}, fd.error};
    std::array<char, PATH_MAX> target;
    auto size = ::readlinkat(fd.value.get(), "", target.data(), target.size());
    if (size < 0) return {{}, errno};
    return {{target.data(), static_cast<std::size_t>(size)}, 0};
}

OriginalResult<Listing> list_original(const std::string& path, std::uint64_t inode,
                                      const Guard& guard) {
    auto fd = open_original(path, O_PATH | O_DIRECTORY);
    if (fd.error != 0) return {{}, fd.error};
    struct stat info{};
    if (::fstat(fd.value.get(), &info) != 0) return {{}, errno};
    if (guard.is_ours(info.st_dev)) return {{}, ELOOP};
    if (info.st_ino != inode) return {{}, ESTALE};
    TimePoint end = Clock::now() + kDeadline;
    for (int tries = 0; tries < kTries;) {
        bool taken = Clock::now() >= end;
        auto listing = list_directory(by_number(fd.value), by_number(fd.value),
                                      taken ? Changing::Taken : Changing::Refused);
        if (listing.ok()) return {std::move(*listing), 0};
        auto why = open_original(path, O_RDONLY | O_DIRECTORY);
        if (why.error != 0) return {{}, why.error};
        tries += taken;
        std::this_thread::sleep_for(kPause);  // it changed
    }
    return {{}, EIO};
}

OriginalResult<Fd> open_version(const std::string& path, const Identity& version,
                                const Guard& guard) {
    auto seen = open_original(path, O_PATH);
    if (seen.error != 0) return {{}, seen.error == ENOENT ? ESTALE : seen.error};
    struct stat info{};
    if (::fstat(seen.value.get(), &info) != 0) return {{}, errno};
    if (guard.is_ours(info.st_dev)) return {{}, ELOOP};
    // Only now is it known that opening it has no effects.
    if (!S_ISREG(info.st_mode) || Attributes::of(info).identity() != version) return {{}, ESTALE};
    Fd fd(::open(by_number(seen.value).c_str(), O_RDONLY | O_NOCTTY | O_CLOEXEC));
    int error = fd ? 0 : errno;
    return {std::move(fd), error};
}

bool is_version(int fd, const Identity& version) {
    struct stat info{};
    if (::fstat(fd, &info) != 0) return false;
    Identity now = Attributes::of(info).identity();
    // Losing its last name changes nothing but its ctime: it was deleted or replaced, not written.
    if (info.st_nlink == 0) now.ctime_ns = version.ctime_ns;
    return now == version;
}

}  // namespace holdfast::mount
