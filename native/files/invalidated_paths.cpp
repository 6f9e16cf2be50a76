#include "files/invalidated_paths.hpp"

#include <algorithm>
#include <string_view>

#include "files/messages.hpp"
#include "rpc/wire.hpp"

namespace holdfast {
namespace {

constexpr std::string_view kInvalidated = "left", kReturned = "back";

// Goes from a path to those above it, until `look`, which wants the lock, has seen enough.
template <typename Look>
void climb(std::string path, Look look) NOT_CHECKED {
    while (!look(path)) {
        auto slash = path.rfind('/');
        if (slash == std::string::npos || path == "/") return;
        path.resize(std::max<std::size_t>(slash, 1));
    }
}

}  // namespace

std::string InvalidatedPaths::Saying::notice(const std::string& path) const {
    return path + '\0' + std::string(invalidates ? kInvalidated : kReturned) +
           MetaWriter().number(number).number(inode).take();
}

std::optional<InvalidatedPaths::Decoded> InvalidatedPaths::decode(const std::string& notice) {
    constexpr std::size_t kWhat = 4, kNumbers = 16;
    auto end = notice.find('\0');
    if (end == std::string::npos) return std::nullopt;
    std::string_view rest = std::string_view(notice).substr(end + 1);
    if (rest.size() != kWhat + kNumbers) return std::nullopt;
    bool invalidates = rest.starts_with(kInvalidated);
    if (!invalidates && !rest.starts_with(kReturned)) return std::nullopt;
    MetaReader reader(rest.substr(kWhat));
    auto number = reader.number<std::uint64_t>(), inode = reader.number<std::uint64_t>();
    return Decoded{notice.substr(0, end), {invalidates, number, inode}};
}

// ---- what is out -----------------------------------------------------------------------------

InvalidatedPaths::Greatest InvalidatedPaths::about(std::string path) const {
    Greatest all;
    climb(std::move(path), [&](const std::string& one) REQUIRES(mutex_) {
        if (auto found = said_.find(one); found != said_.end()) {
            all.invalidated = std::max(all.invalidated, found->second.invalidated);
            all.returned = std::max(all.returned, found->second.returned);
        }
        return false;
    });
    return all;
}

bool InvalidatedPaths::out(const std::string& path) const {
    Greatest said = about(path);
    return said.invalidated != 0 && said.invalidated >= said.returned;
}

bool InvalidatedPaths::empty() const {
    Lock lock(mutex_);
    return said_.empty();
}

bool InvalidatedPaths::contains(const std::string& path) const {
    Lock lock(mutex_);
    return !said_.empty() && out(path);
}

bool InvalidatedPaths::contains(std::uint64_t inode) const {
    Lock lock(mutex_);
    auto found = inodes_.find(inode);
    return found != inodes_.end() &&
           std::ranges::any_of(found->second,
                               [&](const std::string& path) REQUIRES(mutex_) { return out(path); });
}

bool InvalidatedPaths::touches(const std::string& directory) const {
    Lock lock(mutex_);
    auto found = within_.find(directory);
    return found != within_.end() &&
           std::ranges::any_of(found->second.paths,
                               [&](const std::string& path) REQUIRES(mutex_) { return out(path); });
}

std::optional<InvalidatedPaths::Cover> InvalidatedPaths::cover(const std::string& path) const {
    Lock lock(mutex_);
    if (said_.empty() || !out(path)) return std::nullopt;
    std::uint64_t number = about(path).invalidated;
    std::optional<Cover> found;
    climb(path, [&](const std::string& one) REQUIRES(mutex_) {
        auto said = said_.find(one);
        if (said == said_.end() || said->second.invalidated != number) return false;
        // The last of those that invalidate has that number, and is of a way if any is.
        found = Cover{one, said->second.all.rbegin()->notice(one)};
        return true;
    });
    return found;
}

bool InvalidatedPaths::crowded(const std::string& directory) const {
    Lock lock(mutex_);
    auto found = within_.find(directory);
    return found != within_.end() && found->second.sayings >= kMostWithin;
}

// ---- notices ---------------------------------------------------------------------------------

std::string InvalidatedPaths::invalidation(const std::string& path, std::uint64_t inode) const {
    Lock lock(mutex_);
    auto own = said_.find(path);
    bool same = own != said_.end() && own->second.invalidated != 0 &&
                own->second.invalidated >= about(path).returned;
    return Saying{true, same ? own->second.invalidated : last_ + 1, inode}.notice(path);
}

std::string InvalidatedPaths::readmission(const std::string& path) const {
    Lock lock(mutex_);
    std::string below = path.ends_with('/') ? path : path + "/";
    bool any = out(path);
    for (auto& [one, said] : said_) any = any || (one.starts_with(below) && out(one));
    return any ? Saying{false, last_ + 1, 0}.notice(path) : std::string();
}

std::string InvalidatedPaths::repeated(const std::string& notice) const {
    auto said = decode(notice);
    if (!said || !said->saying.invalidates) return {};
    {
        Lock lock(mutex_);
        if (out(said->path)) return {};
    }
    return invalidation(said->path, said->saying.inode);
}

InvalidatedPaths::Learnt InvalidatedPaths::learn(const std::string& notice) {
    auto heard = decode(notice);
    if (!heard) return {.forgotten = {notice}};
    auto& [path, saying] = *heard;
    Learnt learnt;
    learnt.news = !saying.invalidates    ? News::Returned
                  : saying.inode == kWay ? News::WayInvalidated
                                         : News::Invalidated;
    Lock lock(mutex_);
    last_ = std::max(last_, saying.number);
    if (covered(path, saying)) {
        // Who invalidated it did not know that it had returned. What was seen since that return
        // may be what was there before the change.
        if (about(path).returned > saying.number) learnt.news = News::Returned;
        learnt.forgotten.push_back(notice);
        return learnt;
    }
    learnt.forgotten = forget_below(path, saying);
    Said& said = said_[path];
    std::uint64_t& known = saying.invalidates ? said.invalidated : said.returned;
    known = std::max(known, saying.number);
    if (!said.all.insert(saying).second || !saying.invalidates) return learnt;
    auto& within = within_[directory_of(path)];
    within.paths.insert(path);
    ++within.sayings;
    if (saying.inode != 0 && saying.inode != kWay) inodes_[saying.inode].insert(path);
    return learnt;
}

// ---- notices that are forgotten --------------------------------------------------------------

bool InvalidatedPaths::covers(const Saying& one, const Saying& other, bool same_path) {
    if (!one.invalidates)
        return one.number > other.number || (one.number == other.number && !other.invalidates);
    return other.invalidates && !same_path && one.inode == kWay && one.number >= other.number &&
           (other.inode == 0 || other.inode == kWay);
}

bool InvalidatedPaths::covered(const std::string& path, const Saying& saying) const {
    bool found = false;
    climb(path, [&](const std::string& one) REQUIRES(mutex_) {
        auto said = said_.find(one);
        found = said != said_.end() && std::ranges::any_of(said->second.all, [&](auto& other) {
                    return !(one == path && other == saying) && covers(other, saying, one == path);
                });
        return found;
    });
    return found;
}

std::vector<std::string> InvalidatedPaths::forget_below(const std::string& path,
                                                        const Saying& saying) {
    std::vector<std::string> notices;
    if (saying.invalidates && saying.inode != kWay) return notices;  // it covers nothing
    std::string below = path.ends_with('/') ? path : path + "/";
    for (auto entry = said_.begin(); entry != said_.end();) {
        auto& [one, said] = *entry;
        if (one == path || one.starts_with(below)) {
            std::vector<Saying> gone;
            for (auto& other : said.all)
                if (!(one == path && other == saying) && covers(saying, other, one == path))
                    gone.push_back(other);
            for (auto& other : gone) {
                notices.push_back(other.notice(one));
                forget(one, said, other);
            }
        }
        entry = said.all.empty() ? said_.erase(entry) : std::next(entry);
    }
    return notices;
}

void InvalidatedPaths::forget(const std::string& path, Said& said, const Saying& saying) {
    said.all.erase(saying);
    said.invalidated = said.returned = 0;
    auto has_inode = [&](const Saying& one) {
        return one.invalidates && one.inode == saying.inode;
    };
    bool inode_stays = std::ranges::any_of(said.all, has_inode);
    for (auto& one : said.all) {
        std::uint64_t& known = one.invalidates ? said.invalidated : said.returned;
        known = std::max(known, one.number);
    }
    if (!saying.invalidates) return;
    if (auto found = inodes_.find(saying.inode); found != inodes_.end() && !inode_stays) {
        found->second.erase(path);
        if (found->second.empty()) inodes_.erase(found);
    }
    auto within = within_.find(directory_of(path));
    --within->second.sayings;
    if (said.invalidated == 0) within->second.paths.erase(path);
    if (within->second.sayings == 0) within_.erase(within);
}

}  // namespace holdfast
