// The hash ring of src/holdfast/placement/ring.py, equal to it for every key.
// Immutable after construction, so thread-safe; never blocks.
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast {

constexpr std::size_t kMaxCopies = 16;  // of an object, so owners of a key

class Ring {
  public:
    // The names must be distinct and virtual_nodes at least 1 (the binding checks both).
    Ring(std::vector<std::string> nodes, std::uint32_t virtual_nodes);

    // Indices into nodes() of the first `count` distinct owners of `key`; fewer if there are fewer.
    // What follows the first zero byte of a key does not count: versions of a file live together.
    std::vector<std::uint32_t> owners(std::string_view key, std::size_t count) const;
    // The same into `out`; gives how many.
    std::size_t owners(std::string_view key, std::span<std::uint32_t> out) const;

    // The share of all keys that each node owns first, in the order of nodes().
    std::vector<double> shares() const;

    const std::vector<std::string>& nodes() const { return nodes_; }
    bool operator==(const Ring&) const = default;

  private:
    struct Point {
        std::uint64_t position;
        std::uint32_t node;
        // Indices are in the order of names, so that every member settles ties alike.
        auto operator<=>(const Point&) const = default;
    };

    std::size_t slot(std::uint64_t position) const { return position >> shift_; }

    std::vector<std::string> nodes_;  // sorted
    std::vector<Point> points_;       // sorted
    // The circle in equal slots, about as many as points: where the points of each begin. Hashes
    // are spread evenly, so that a slot has one or two, and nothing has to be searched.
    std::vector<std::uint32_t> starts_;
    int shift_ = 63;  // from a position to its slot
};

}  // namespace holdfast
