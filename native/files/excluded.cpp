#include "files/excluded.hpp"

#include <algorithm>
#include <string_view>

#include "files/messages.hpp"
#include "rpc/wire.hpp"

namespace holdfast {
namespace {

constexpr std::string_view kLeft = "left", kReturned = "back";

std::string key_of(const std::string& path, std::string_view what, std::uint64_t number) {
    return file_prefix(path) + std::string(what) + MetaWriter().number(number).take();
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

bool Excluded::contains(const std::string& path) const {
    std::lock_guard lock(mutex_);
    if (said_.empty()) return false;
    Said said = about(path);
    return said.left != 0 && said.left >= said.returned;
}

std::string Excluded::leaving(const std::string& path) const {
    std::lock_guard lock(mutex_);
    auto own = said_.find(path);
    bool out =
        own != said_.end() && own->second.left != 0 && own->second.left >= about(path).returned;
    return key_of(path, kLeft, out ? own->second.left : last_ + 1);
}

std::string Excluded::returning(const std::string& path) const {
    std::lock_guard lock(mutex_);
    std::string below = path.ends_with('/') ? path : path + "/";
    Said own = about(path);
    bool out = own.left != 0 && own.left >= own.returned;
    for (auto& [one, said] : said_)
        out |= said.left != 0 && one.starts_with(below) && said.left >= about(one).returned;
    return out ? key_of(path, kReturned, last_ + 1) : std::string();
}

bool Excluded::learn(const std::string& key) {
    constexpr std::size_t kWhat = 4, kNumber = 8, kPrefix = sizeof kFilePrefix - 1;
    auto end = key.find('\0');
    if (!key.starts_with(kFilePrefix) || end == std::string::npos) return false;
    std::string_view rest = std::string_view(key).substr(end + 1);
    if (rest.size() != kWhat + kNumber) return false;
    bool left = rest.starts_with(kLeft);
    if (!left && !rest.starts_with(kReturned)) return false;
    std::uint64_t number = MetaReader(rest.substr(kWhat)).number<std::uint64_t>();
    std::lock_guard lock(mutex_);
    Said& said = said_[key.substr(kPrefix, end - kPrefix)];
    std::uint64_t& known = left ? said.left : said.returned;
    known = std::max(known, number);
    last_ = std::max(last_, number);
    return left;
}

}  // namespace holdfast
