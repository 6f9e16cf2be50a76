// What every member must learn and none may forget while the job lives (rule 9), as a replicated
// set that only grows, in a form that agents can compare and merge: 256 buckets by the top byte of
// the hash. A notice goes only when others say as much and always will; who hears of it again
// refuses it. Not thread-safe. No I/O.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

namespace holdfast {

enum class Topic : char {
    Tombstone = 't',  // a key that was dropped
    Watermark = 'w',  // versions that were dropped (store/watermarks.hpp)
    Path = 'p',       // a path that left the cache, or returned (files/invalidated_paths.hpp)
    Refresh = 'r',    // what is known of files is to be revalidated (files/refreshes.hpp)
    Roster = 's',     // the nodes of a space (placement/windows.hpp)
};

struct Notice {
    Topic topic = Topic::Tombstone;
    std::string text;

    // Longer ones are none: a key, and some numbers; and a roster.
    static constexpr std::size_t kMost = 4096 + 64, kMostRoster = 256 << 10;

    std::string encode() const { return static_cast<char>(topic) + text; }
    // Nothing if there is no such topic.
    static std::optional<Notice> decode(const std::string& encoded);
};

class Notices {
  public:
    static constexpr std::size_t kBuckets = 256;

    bool add(const Notice& notice);  // false if it was there
    // Others that are there say as much.
    void forget(const Notice& notice);
    bool contains(Topic topic, const std::string& text) const;

    std::uint64_t count() const { return count_; }
    std::uint64_t bytes() const { return bytes_; }  // of all, encoded
    // The xor of all hashes: with the count, equal for equal sets.
    std::uint64_t digest() const;
    const std::array<std::uint64_t, kBuckets>& buckets() const { return digests_; }
    // All of some buckets, encoded; numbers that are none are ignored.
    std::vector<std::string> in(const std::vector<std::uint32_t>& buckets) const;

  private:
    std::array<std::unordered_set<std::string>, kBuckets> encoded_;
    std::array<std::uint64_t, kBuckets> digests_{};
    std::uint64_t count_ = 0, bytes_ = 0;
};

}  // namespace holdfast
