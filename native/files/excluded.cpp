#include "files/excluded.hpp"

#include <algorithm>
#include <string_view>

#include "files/messages.hpp"
#include "rpc/wire.hpp"

namespace holdfast {
namespace {

constexpr std::string_view kLeft = "left", kReturned = "back";

std::string key_of(const std::string& path, std::string_view what, std::uint64_t number,
                   std::uint64_t inode) {
    return file_prefix(path) + std::string(what) + MetaWriter().number(number).number(inode).take();
}

}  // namespace

Excluded::Said Excluded::about(std::string path) const {
    Said all;
    for (;;) {
        if (auto found = said_.find(path); found != said_.end()) {
            all.left = std::max(all.left, found->second.left);
            all.returned = std::max(all.returned, found->second.returned);
        }
        auto slash = path.rfind('/');
        if (slash == std::string::npos || path == "/") return all;
        path.resize(std::max<std::size_t>(slash, 1));
    }
}

bool Excluded::out(const std::string& path) const {
    Said said = about(path);
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
           std::ranges::any_of(found->second, [&](const std::string& path) { return out(path); });
}

std::string Excluded::leaving(const std::string& path, std::uint64_t inode) const {
    std::lock_guard lock(mutex_);
    auto own = said_.find(path);
    bool same =
        own != said_.end() && own->second.left != 0 && own->second.left >= about(path).returned;
    return key_of(path, kLeft, same ? own->second.left : last_ + 1, inode);
}

std::string Excluded::returning(const std::string& path) const {
    std::lock_guard lock(mutex_);
    std::string below = path.ends_with('/') ? path : path + "/";
    bool any = out(path);
    for (auto& [one, said] : said_) any = any || (one.starts_with(below) && out(one));
    return any ? key_of(path, kReturned, last_ + 1, 0) : std::string();
}

Excluded::News Excluded::learn(const std::string& key) {
    constexpr std::size_t kWhat = 4, kNumbers = 16, kPrefix = sizeof kFilePrefix - 1;
    auto end = key.find('\0');
    if (!key.starts_with(kFilePrefix) || end == std::string::npos) return News::Nothing;
    std::string_view rest = std::string_view(key).substr(end + 1);
    if (rest.size() != kWhat + kNumbers) return News::Nothing;
    bool left = rest.starts_with(kLeft);
    if (!left && !rest.starts_with(kReturned)) return News::Nothing;
    MetaReader reader(rest.substr(kWhat));
    auto number = reader.number<std::uint64_t>(), inode = reader.number<std::uint64_t>();
    std::string path = key.substr(kPrefix, end - kPrefix);
    std::lock_guard lock(mutex_);
    Said& said = said_[path];
    std::uint64_t& known = left ? said.left : said.returned;
    known = std::max(known, number);
    last_ = std::max(last_, number);
    if (left) within_[directory_of(path)].insert(path);
    if (!left) return News::Returned;
    if (inode == kWay) return News::WayLeft;
    if (inode != 0) inodes_[inode].insert(std::move(path));
    return News::Left;
}

}  // namespace holdfast
