// Keys that were dropped, for as long as the job lives (rule 9), in a form that agents can compare
// and merge: 256 buckets by the top byte of the key's hash. Those that say of a path that it left
// the cache go when others say as much (files/invalidated_paths.hpp). Not thread-safe.
// No I/O.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <unordered_set>
#include <vector>

namespace holdfast {

class DroppedKeys {
  public:
    static constexpr std::size_t kBuckets = 256;

    bool add(const std::string& key);  // false if it was there
    // What a key says is said by others that are there, and always will be.
    void forget(const std::string& key);
    bool contains(const std::string& key) const;

    std::uint64_t count() const { return count_; }
    std::uint64_t bytes() const { return bytes_; }  // of all keys
    // The xor of all hashes: with the count, equal for equal sets.
    std::uint64_t digest() const;
    const std::array<std::uint64_t, kBuckets>& buckets() const { return digests_; }
    // All keys of some buckets; numbers that are none are ignored.
    std::vector<std::string> in(const std::vector<std::uint32_t>& buckets) const;

  private:
    std::array<std::unordered_set<std::string>, kBuckets> keys_;
    std::array<std::uint64_t, kBuckets> digests_{};
    std::uint64_t count_ = 0, bytes_ = 0;
};

}  // namespace holdfast
