#include "files/excluded.hpp"

#include <algorithm>
#include <string_view>

#include "files/messages.hpp"
#include "rpc/wire.hpp"

namespace holdfast {
namespace {

constexpr std::string_view kLeft = "left", kReturned = "back";

// Goes from a path to those above it, until `look` has seen enough.
template <typename Look>
void climb(std::string path, Look look) {
    while (!look(path)) {
        auto slash = path.rfind('/');
        if (slash == std::string::npos || path == "/") return;
        path.resize(std::max<std::size_t>(slash, 1));
    }
}

}  // namespace

std::string Excluded::Saying::key(const std::string& path) const {
    return file_prefix(path) + std::string(left ? kLeft : kReturned) +
           MetaWriter().number(number).number(inode).take();
}

std::optional<Excluded::Keyed> Excluded::decode(const std::string& key) {
    constexpr std::size_t kWhat = 4, kNumbers = 16, kPrefix = sizeof kFilePrefix - 1;
    auto end = key.find('\0');
    if (!key.starts_with(kFilePrefix) || end == std::string::npos) return std::nullopt;
    std::string_view rest = std::string_view(key).substr(end + 1);
    if (rest.size() != kWhat + kNumbers) return std::nullopt;
    bool left = rest.starts_with(kLeft);
    if (!left && !rest.starts_with(kReturned)) return std::nullopt;
    MetaReader reader(rest.substr(kWhat));
    auto number = reader.number<std::uint64_t>(), inode = reader.number<std::uint64_t>();
    return Keyed{key.substr(kPrefix, end - kPrefix), {left, number, inode}};
}

// ---- what is out -----------------------------------------------------------------------------

Excluded::Greatest Excluded::about(std::string path) const {
    Greatest all;
    climb(std::move(path), [&](const std::string& one) {
        if (auto found = said_.find(one); found != said_.end()) {
            all.left = std::max(all.left, found->second.left);
            all.returned = std::max(all.returned, found->second.returned);
        }
        return false;
    });
    return all;
}

bool Excluded::out(const std::string& path) const {
    Greatest said = about(path);
    return said.left != 0 && said.left >= said.returned;
}

bool Excluded::empty() const {
    std::lock_guard lock(mutex_);
    return said_.empty();
}

bool Excluded::contains(const std::string& path) const {
    std::lock_guard lock(mutex_);
    return !said_.empty() && out(path);
}

bool Excluded::contains(std::uint64_t inode) const {
    std::lock_guard lock(mutex_);
    auto found = inodes_.find(inode);
    return found != inodes_.end() &&
           std::ranges::any_of(found->second, [&](const std::string& path) { return out(path); });
}

bool Excluded::touches(const std::string& directory) const {
    std::lock_guard lock(mutex_);
    auto found = within_.find(directory);
    return found != within_.end() &&
           std::ranges::any_of(found->second.paths,
                               [&](const std::string& path) { return out(path); });
}

std::optional<Excluded::Cover> Excluded::cover(const std::string& path) const {
    std::lock_guard lock(mutex_);
    if (said_.empty() || !out(path)) return std::nullopt;
    std::uint64_t number = about(path).left;
    std::optional<Cover> found;
    climb(path, [&](const std::string& one) {
        auto said = said_.find(one);
        if (said == said_.end() || said->second.left != number) return false;
        // The last of those that leave has that number, and is of a way if any is.
        found = Cover{one, said->second.all.rbegin()->key(one)};
        return true;
    });
    return found;
}

bool Excluded::crowded(const std::string& directory) const {
    std::lock_guard lock(mutex_);
    auto found = within_.find(directory);
    return found != within_.end() && found->second.sayings >= kMostWithin;
}

// ---- keys ------------------------------------------------------------------------------------

std::string Excluded::leaving(const std::string& path, std::uint64_t inode) const {
    std::lock_guard lock(mutex_);
    auto own = said_.find(path);
    bool same =
        own != said_.end() && own->second.left != 0 && own->second.left >= about(path).returned;
    return Saying{true, same ? own->second.left : last_ + 1, inode}.key(path);
}

std::string Excluded::returning(const std::string& path) const {
    std::lock_guard lock(mutex_);
    std::string below = path.ends_with('/') ? path : path + "/";
    bool any = out(path);
    for (auto& [one, said] : said_) any = any || (one.starts_with(below) && out(one));
    return any ? Saying{false, last_ + 1, 0}.key(path) : std::string();
}

std::string Excluded::repeated(const std::string& key) const {
    auto said = decode(key);
    if (!said || !said->saying.left) return {};
    {
        std::lock_guard lock(mutex_);
        if (out(said->path)) return {};
    }
    return leaving(said->path, said->saying.inode);
}

Excluded::Learnt Excluded::learn(const std::string& key) {
    auto heard = decode(key);
    if (!heard) return {};
    auto& [path, saying] = *heard;
    Learnt learnt;
    learnt.news = !saying.left ? News::Returned : saying.inode == kWay ? News::WayLeft : News::Left;
    std::lock_guard lock(mutex_);
    last_ = std::max(last_, saying.number);
    if (covered(path, saying)) {
        // Who said that it left did not know that it had returned. What was seen since that return
        // may be what was there before the change.
        if (about(path).returned > saying.number) learnt.news = News::Returned;
        learnt.forgotten.push_back(key);
        return learnt;
    }
    learnt.forgotten = forget_below(path, saying);
    Said& said = said_[path];
    std::uint64_t& known = saying.left ? said.left : said.returned;
    known = std::max(known, saying.number);
    if (!said.all.insert(saying).second || !saying.left) return learnt;
    auto& within = within_[directory_of(path)];
    within.paths.insert(path);
    ++within.sayings;
    if (saying.inode != 0 && saying.inode != kWay) inodes_[saying.inode].insert(path);
    return learnt;
}

// ---- keys that are forgotten -----------------------------------------------------------------

bool Excluded::covers(const Saying& one, const Saying& other, bool same_path) {
    if (!one.left) return one.number > other.number || (one.number == other.number && !other.left);
    return other.left && !same_path && one.inode == kWay && one.number >= other.number &&
           (other.inode == 0 || other.inode == kWay);
}

bool Excluded::covered(const std::string& path, const Saying& saying) const {
    bool found = false;
    climb(path, [&](const std::string& one) {
        auto said = said_.find(one);
        found = said != said_.end() && std::ranges::any_of(said->second.all, [&](auto& other) {
                    return !(one == path && other == saying) && covers(other, saying, one == path);
                });
        return found;
    });
    return found;
}

std::vector<std::string> Excluded::forget_below(const std::string& path, const Saying& saying) {
    std::vector<std::string> keys;
    if (saying.left && saying.inode != kWay) return keys;  // it covers nothing
    std::string below = path.ends_with('/') ? path : path + "/";
    for (auto entry = said_.begin(); entry != said_.end();) {
        auto& [one, said] = *entry;
        if (one == path || one.starts_with(below)) {
            std::vector<Saying> gone;
            for (auto& other : said.all)
                if (!(one == path && other == saying) && covers(saying, other, one == path))
                    gone.push_back(other);
            for (auto& other : gone) {
                keys.push_back(other.key(one));
                forget(one, said, other);
            }
        }
        entry = said.all.empty() ? said_.erase(entry) : std::next(entry);
    }
    return keys;
}

void Excluded::forget(const std::string& path, Said& said, const Saying& saying) {
    said.all.erase(saying);
    said.left = said.returned = 0;
    auto has_inode = [&](const Saying& one) { return one.left && one.inode == saying.inode; };
    bool inode_stays = std::ranges::any_of(said.all, has_inode);
    for (auto& one : said.all) {
        std::uint64_t& known = one.left ? said.left : said.returned;
        known = std::max(known, one.number);
    }
    if (!saying.left) return;
    if (auto found = inodes_.find(saying.inode); found != inodes_.end() && !inode_stays) {
        found->second.erase(path);
        if (found->second.empty()) inodes_.erase(found);
    }
    auto within = within_.find(directory_of(path));
    --within->second.sayings;
    if (said.left == 0) within->second.paths.erase(path);
    if (within->second.sayings == 0) within_.erase(within);
}

}  // namespace holdfast
