#include "files/resolve.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <deque>
#include <memory>
#include <string_view>

namespace holdfast {
namespace {

Status not_cached(const std::string& what, int error) {
    return system_failure(Code::NotCached, what, error);
}

// How the kernel names the file behind a descriptor.
std::string link_of(const Fd& fd) {
    return "/proc/self/fd/" + std::to_string(fd.get());
}

// Where it lies; empty if that cannot be said.
std::string where(const Fd& fd) {
    std::array<char, PATH_MAX + 1> path;
    auto size = ::readlink(link_of(fd).c_str(), path.data(), path.size());
    if (size <= 0 || size >= static_cast<ssize_t>(path.size())) return {};
    return {path.data(), static_cast<std::size_t>(size)};
}

Result<Fd> open_root(const std::string& root) {
    Fd fd(::open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!fd) return not_cached("cannot open the root " + root, errno);
    return fd;
}

Result<Attributes> attributes_of(const Fd& fd) {
    struct stat info{};
    if (::fstat(fd.get(), &info) != 0) return not_cached("cannot stat a file", errno);
    return Attributes::of(info);
}

}  // namespace

Result<Fd> resolve_beneath(const Fd& root, const std::string& relative) {
    open_how how{};
    how.flags = O_PATH | O_CLOEXEC;
    how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
    auto fd = ::syscall(SYS_openat2, root.get(), relative.c_str(), &how, sizeof how);
    if (fd >= 0) return Fd(static_cast<int>(fd));
    // A filter of system calls may answer EPERM for one that it does not know.
    if (errno == ENOSYS || errno == EPERM)
        return Status(Code::Unavailable, "openat2 is not available");
    return not_cached("cannot find " + relative + " below its root", errno);
}

Result<Fd> resolve_and_compare(const Fd& root, const std::string& relative) {
    Fd fd(::openat(root.get(), relative.c_str(), O_PATH | O_CLOEXEC));
    if (!fd) return not_cached("cannot find " + relative + " below its root", errno);
    std::string above = where(root), found = where(fd);
    if (above.empty()) return Status(Code::NotCached, "cannot tell where the root is");
    if (!above.ends_with('/')) above += '/';
    if (!found.starts_with(above))
        return Status(Code::NotCached, relative + " points outside the root");
    return fd;
}

Result<Place> resolve(const FileOrder& order) {
    auto relative = order.below_root();
    if (!relative.ok()) return relative.take_status();
    auto root = open_root(order.root);
    if (!root.ok()) return root.take_status();
    auto fd = resolve_beneath(*root, *relative);
    if (!fd.ok() && fd.status().code() == Code::Unavailable)
        fd = resolve_and_compare(*root, *relative);
    if (!fd.ok()) return fd.take_status();
    auto attributes = attributes_of(*fd);
    if (!attributes.ok()) return attributes.take_status();
    // Readers take the device of a file from its root: numbers differ from node to node.
    auto top = attributes_of(*root);
    if (!top.ok()) return top.take_status();
    if (attributes->device != top->device)
        return Status(Code::NotCached, order.path + " is on another file system than its root");
    attributes->direct = where(*fd) == where(*root) + "/" + *relative;
    return Place{std::move(*fd), *attributes};
}

namespace {

void prepend(std::deque<std::string>& parts, std::string_view path) {
    std::vector<std::string> found;
    for (std::size_t at = 0; at < path.size();) {
        auto end = std::min(path.find('/', at), path.size());
        if (end > at) found.emplace_back(path.substr(at, end - at));
        at = end + 1;
    }
    parts.insert(parts.begin(), found.begin(), found.end());
}

}  // namespace

Result<std::vector<std::string>> names_on_the_way(const std::string& root,
                                                  const std::string& path) {
    constexpr int kMostLinks = 40;  // as the kernel follows
    std::vector<std::string> names;
    std::deque<std::string> parts;
    prepend(parts, std::string_view(path).substr(root.size()));
    std::string at = root;
    for (int links = 0; !parts.empty();) {
        std::string part = std::move(parts.front());
        parts.pop_front();
        if (part == ".") continue;
        if (part == "..") {
            if (at == root) return Status(Code::NotCached, path + " points outside the root");
            names.push_back(at);
            at.resize(at.rfind('/'));
            continue;
        }
        std::string name = at + "/" + part;
        std::array<char, PATH_MAX> target;
        auto size = ::readlink(name.c_str(), target.data(), target.size());
        if (size < 0) {
            if (errno != EINVAL) return not_cached("cannot read the link " + name, errno);
            at = std::move(name);
            continue;
        }
        names.push_back(std::move(name));
        if (size == 0 || target[0] == '/' || ++links > kMostLinks)
            return Status(Code::NotCached,
                          path + " points to a place that only the file system can resolve");
        prepend(parts, {target.data(), static_cast<std::size_t>(size)});
    }
    names.push_back(std::move(at));
    return names;
}

bool is_way_to_others(const std::string& path) {
    struct stat now{};
    if (::lstat(path.c_str(), &now) != 0) return errno != ENOENT && errno != ENOTDIR;
    if (!S_ISDIR(now.st_mode)) return S_ISLNK(now.st_mode);
    std::unique_ptr<DIR, int (*)(DIR*)> stream(::opendir(path.c_str()), &::closedir);
    if (!stream) return true;
    while (dirent* next = ::readdir(stream.get()))
        if (std::strcmp(next->d_name, ".") != 0 && std::strcmp(next->d_name, "..") != 0)
            return true;
    return false;
}

Result<Place> resolve_root(const std::string& root) {
    auto fd = open_root(root);
    if (!fd.ok()) return fd.take_status();
    auto attributes = attributes_of(*fd);
    if (!attributes.ok()) return attributes.take_status();
    return Place{std::move(*fd), *attributes};
}

namespace {

Result<Fd> open_as(const Place& place, int flags) {
    Fd fd(::open(link_of(place.fd).c_str(), O_RDONLY | O_CLOEXEC | flags));
    if (!fd) return not_cached("cannot open a file", errno);
    auto now = attributes_of(fd);
    if (!now.ok()) return now.take_status();
    if (now->identity() != place.attributes.identity() || now->device != place.attributes.device)
        return Status(Code::NotCached, "the file has just changed");
    return fd;
}

}  // namespace

Result<Fd> open_place(const Place& place) {
    return open_as(place, O_NOCTTY | O_NONBLOCK);
}

Result<Fd> open_directory(const Place& place) {
    return open_as(place, O_DIRECTORY);
}

}  // namespace holdfast
