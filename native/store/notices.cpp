#include "store/notices.hpp"

#include "base/hash.hpp"

namespace holdfast {

std::optional<Notice> Notice::decode(const std::string& encoded) {
    if (encoded.empty()) return std::nullopt;
    auto topic = static_cast<Topic>(encoded.front());
    if (encoded.size() > (topic == Topic::Roster ? 1 + kMostRoster : kMost)) return std::nullopt;
    switch (topic) {
        case Topic::Tombstone:
        case Topic::Watermark:
        case Topic::Path:
        case Topic::Refresh:
        case Topic::Roster:
            return Notice{topic, encoded.substr(1)};
    }
    return std::nullopt;
}

bool Notices::add(const Notice& notice) {
    std::string encoded = notice.encode();
    std::uint64_t hash = xxh3_64(encoded);
    if (!encoded_[hash >> 56].insert(encoded).second) return false;
    digests_[hash >> 56] ^= hash;
    ++count_;
    bytes_ += encoded.size();
    return true;
}

void Notices::forget(const Notice& notice) {
    std::string encoded = notice.encode();
    std::uint64_t hash = xxh3_64(encoded);
    if (encoded_[hash >> 56].erase(encoded) == 0) return;
    digests_[hash >> 56] ^= hash;
    --count_;
    bytes_ -= encoded.size();
}

bool Notices::contains(Topic topic, const std::string& text) const {
    if (count_ == 0) return false;
    std::string encoded = Notice{topic, text}.encode();
    return encoded_[xxh3_64(encoded) >> 56].contains(encoded);
}

std::uint64_t Notices::digest() const {
    std::uint64_t all = 0;
    for (std::uint64_t one : digests_) all ^= one;
    return all;
}

std::vector<std::string> Notices::in(const std::vector<std::uint32_t>& buckets) const {
    std::array<bool, kBuckets> wanted{};
    for (auto bucket : buckets)
        if (bucket < kBuckets) wanted[bucket] = true;
    std::vector<std::string> found;
    for (std::size_t i = 0; i < kBuckets; ++i)
        if (wanted[i]) found.insert(found.end(), encoded_[i].begin(), encoded_[i].end());
    return found;
}

}  // namespace holdfast
