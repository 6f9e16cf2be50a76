#include "store/watermarks.hpp"

#include <algorithm>
#include <charconv>

#include "rpc/wire.hpp"
#include "store/object.hpp"

namespace holdfast {
namespace {

bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

// The version with which the rest of a key begins. What is greater than any number has none.
std::optional<std::uint64_t> version_at(std::string_view rest) {
    std::uint64_t version = 0;
    auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), version);
    if (error != std::errc()) return std::nullopt;
    bool whole = end == rest.data() + rest.size() || *end == '/';
    return whole ? std::optional(version) : std::nullopt;
}

}  // namespace

Status Watermark::check() const {
    if (prefix.empty() || prefix.size() > kMaxKey)
        return Status(Code::BadInput, "a prefix must have 1 to " + std::to_string(kMaxKey) +
                                          " bytes, not " + std::to_string(prefix.size()));
    if (is_digit(prefix.back()))
        return Status(Code::BadInput, "the prefix '" + prefix +
                                          "' ends in a digit; end it where the version begins, "
                                          "for instance with a slash");
    return {};
}

bool Watermark::covers(std::string_view key) const {
    if (!key.starts_with(prefix)) return false;
    auto found = version_at(key.substr(prefix.size()));
    return found && *found < version;
}

std::string Watermark::encode() const {
    return MetaWriter().number(version).take() + prefix;
}

std::optional<Watermark> Watermark::decode(const std::string& text) {
    if (text.size() <= sizeof(version)) return std::nullopt;
    Watermark mark{text.substr(sizeof(version)), MetaReader(text).number<std::uint64_t>()};
    if (!mark.check().ok()) return std::nullopt;
    return mark;
}

const Watermark* Watermarks::over(std::string_view key) const {
    if (marks_.empty()) return nullptr;
    // A prefix ends where a number begins.
    for (std::size_t i = 1; i < key.size(); ++i) {
        if (!is_digit(key[i]) || is_digit(key[i - 1])) continue;
        auto mark = marks_.find(key.substr(0, i));
        if (mark != marks_.end() && mark->second.covers(key)) return &mark->second;
    }
    return nullptr;
}

bool Watermarks::cover(const Watermark& mark) const {
    auto same = marks_.find(mark.prefix);
    if (same != marks_.end() && same->second.version >= mark.version) return true;
    // All keys that begin so are of versions that were dropped.
    return over(mark.prefix) != nullptr;
}

std::vector<Watermark> Watermarks::raise(const Watermark& mark) {
    std::vector<Watermark> covered;
    auto one = marks_.lower_bound(mark.prefix);
    while (one != marks_.end() && one->first.starts_with(mark.prefix)) {
        bool goes = one->first == mark.prefix || mark.covers(one->first);
        if (goes) covered.push_back(one->second);
        one = goes ? marks_.erase(one) : std::next(one);
    }
    marks_.insert({mark.prefix, mark});
    return covered;
}

}  // namespace holdfast
