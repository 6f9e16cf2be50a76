#include "store/dropped.hpp"

#include <algorithm>

#include "base/hash.hpp"

namespace holdfast {

bool DroppedKeys::add(const std::string& key) {
    std::uint64_t hash = xxh3_64(key);
    if (!keys_[hash >> 56].insert(key).second) return false;
    digests_[hash >> 56] ^= hash;
    ++count_;
    bytes_ += key.size();
    return true;
}

void DroppedKeys::forget(const std::string& key) {
    std::uint64_t hash = xxh3_64(key);
    if (keys_[hash >> 56].erase(key) == 0) return;
    digests_[hash >> 56] ^= hash;
    --count_;
    bytes_ -= key.size();
}

bool DroppedKeys::contains(const std::string& key) const {
    return count_ > 0 && keys_[xxh3_64(key) >> 56].contains(key);
}

std::uint64_t DroppedKeys::digest() const {
    std::uint64_t all = 0;
    for (std::uint64_t one : digests_) all ^= one;
    return all;
}

std::vector<std::string> DroppedKeys::in(const std::vector<std::uint32_t>& buckets) const {
    std::array<bool, kBuckets> wanted{};
    for (auto bucket : buckets)
        if (bucket < kBuckets) wanted[bucket] = true;
    std::vector<std::string> found;
    for (std::size_t i = 0; i < kBuckets; ++i)
        if (wanted[i]) found.insert(found.end(), keys_[i].begin(), keys_[i].end());
    return found;
}

}  // namespace holdfast
