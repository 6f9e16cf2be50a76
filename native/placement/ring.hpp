// The hash ring of src/holdfast/placement/ring.py, equal to it for every key.
// Immutable after construction, so thread-safe; never blocks.
#pragma once

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
    std::vector<std::uint32_t> owners(std::string_view key, std::size_t count) const;
    // The same into `out`; gives how many.
    std::size_t owners(std::string_view key, std::span<std::uint32_t> out) const;

    const std::vector<std::string>& nodes() const { return nodes_; }
    bool operator==(const Ring&) const = default;

  private:
    std::vector<std::string> nodes_;  // sorted
    std::vector<std::uint64_t> positions_;
    std::vector<std::uint32_t> owners_;  // of each position
};

}  // namespace holdfast
