#include "mount/inodes.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>

#include "files/messages.hpp"

namespace holdfast::mount {
namespace {

// Inode numbers of made-up directories: no file system gives such large ones.
constexpr std::uint64_t kMadeUp = 0xf000'0000'0000'0000u;

Attributes made_up_attributes(std::uint64_t number) {
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME, &now);
    auto ns = static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u +
              static_cast<std::uint64_t>(now.tv_nsec);
    return {.mode = S_IFDIR | 0555,
            .uid = ::geteuid(),
            .gid = ::getegid(),
            .nlink = 2,
            .inode = kMadeUp + number,
            .atime_ns = ns,
            .mtime_ns = ns,
            .ctime_ns = ns};
}

// A directory stays the same whatever happens in it, so that programs may stay in it.
bool is_same(const Attributes& a, const Attributes& b) {
    if ((a.mode & S_IFMT) != (b.mode & S_IFMT)) return false;
    return S_ISDIR(a.mode) ? a.inode == b.inode : a.identity() == b.identity();
}

}  // namespace

MountInodes::MountInodes(const Settings& settings) : settings_(settings) {
    made_up_[""] = make("", 1);
    for (const Root& root : settings.roots) {
        for (auto end = root.path.find('/', 1); end != std::string::npos;
             end = root.path.find('/', end + 1)) {
            std::string path = root.path.substr(0, end);
            if (settings.root_of(path) != nullptr || made_up_.contains(path)) continue;
            auto above = made_up_.at(path.substr(0, path.rfind('/')));
            made_up_[path] = make(path, above->number);
            Attributes more = above->attributes();
            ++more.nlink;
            above->set(more, 0);
        }
    }
}

MountInodePtr MountInodes::make(const std::string& path, std::uint64_t above) {
    auto inode = std::make_shared<MountInode>(made_up_attributes(next_));
    inode->number = next_++;
    inode->above = above;
    inode->path = path;
    by_number_[inode->number] = inode;
    return inode;
}

MountInodePtr MountInodes::find(std::uint64_t number) const {
    ReadLock lock(mutex_);
    auto found = by_number_.find(number);
    return found == by_number_.end() ? nullptr : found->second;
}

MountInodePtr MountInodes::current(const std::string& path) const {
    ReadLock lock(mutex_);
    if (auto made_up = made_up_.find(path); made_up != made_up_.end()) return made_up->second;
    auto found = by_path_.find(path);
    return found == by_path_.end() ? nullptr : found->second;
}

std::uint64_t MountInodes::space_of(const MountInode& above, const std::string& path,
                                    bool begins) const {
    for (const Root& root : settings_.roots)
        if (root.path == path) return root.space;
    return begins ? space_beginning_at(path) : above.space;
}

MountInodePtr MountInodes::tell(const MountInode& above, Seen seen) {
    WriteLock lock(mutex_);
    if (auto made_up = made_up_.find(seen.path); made_up != made_up_.end()) return made_up->second;
    std::uint64_t space = space_of(above, seen.path, seen.begins);
    MountInodePtr& current = by_path_[seen.path];
    if (!current || (current->young && current->is_outdated()) || current->space != space ||
        !is_same(current->attributes(), seen.attributes)) {
        auto inode = std::make_shared<MountInode>(seen.attributes);
        inode->number = next_++;
        inode->above = above.number;
        inode->path = seen.path;
        inode->root = settings_.root_of(seen.path);
        inode->local = seen.local;
        inode->space = space;
        inode->target = std::move(seen.target);
        inode->young =
            !S_ISDIR(seen.attributes.mode) && !settled(seen.attributes, settings_.order.settled_ns);
        by_number_[inode->number] = inode;
        current = inode;
    } else {
        WriteLock own(current->mutex_);
        // E.g. another count of links, another mode. But a directory's own listing may be newer
        // than the one in which it was seen now.
        if (seen.attributes.ctime_ns >= current->attributes_.ctime_ns)
            current->attributes_ = seen.attributes;
        current->above = above.number;
        current->nameless = false;
    }
    ++current->lookups_;
    return current;
}

void MountInodes::forget(std::uint64_t number, std::uint64_t times) {
    MountInodePtr last;  // whose end is not waited for under the lock
    WriteLock lock(mutex_);
    auto found = by_number_.find(number);
    if (found == by_number_.end() || found->second->is_made_up()) return;
    MountInode& inode = *found->second;
    inode.lookups_ -= std::min(times, inode.lookups_);
    if (inode.lookups_ > 0) return;
    auto current = by_path_.find(inode.path);
    if (current != by_path_.end() && current->second.get() == &inode) by_path_.erase(current);
    last = std::move(found->second);
    by_number_.erase(found);
}

std::vector<MountInodePtr> MountInodes::below(const std::string& path) const {
    std::vector<MountInodePtr> found;
    {
        ReadLock lock(mutex_);
        for (const auto& [at, inode] : by_path_)
            if (is_at_or_below(at, path)) found.push_back(inode);
    }
    std::sort(found.begin(), found.end(), [](const MountInodePtr& a, const MountInodePtr& b) {
        return a->path.size() > b->path.size();
    });
    return found;
}

std::vector<std::string> MountInodes::children(const MountInode& made_up) const {
    std::vector<std::string> names;
    std::string top = made_up.path + "/";
    auto add = [&](const std::string& path) {
        if (path.size() <= top.size() || !path.starts_with(top)) return;
        names.push_back(path.substr(top.size(), path.find('/', top.size()) - top.size()));
    };
    for (const Root& root : settings_.roots) add(root.path);
    std::sort(names.begin(), names.end());
    names.erase(std::unique(names.begin(), names.end()), names.end());
    return names;
}

std::size_t MountInodes::size() const {
    ReadLock lock(mutex_);
    return by_number_.size();
}

}  // namespace holdfast::mount
