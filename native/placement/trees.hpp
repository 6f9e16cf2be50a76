// The trees of src/holdfast/placement/trees.py, equal to them for every key: one tree for each path
// of a broadcast, over the nodes of a ring. Immutable after construction, so thread-safe; never
// blocks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "placement/ring.hpp"

namespace holdfast {

class Trees {
  public:
    Trees() = default;
    // The rack of each of the ring's nodes, in their order.
    explicit Trees(const std::vector<std::string>& racks);

    // Indices into ring.nodes() of those above `node` in the tree of `key`, its parent first and
    // the head last; nobody above the head. `ring` has the nodes of this and at least one. A node
    // that is not on the ring stands below the head.
    std::vector<std::uint32_t> ancestors(const Ring& ring, std::string_view key, std::uint32_t node,
                                         std::uint32_t degree) const;

  private:
    struct Place {
        std::uint32_t rack, index;  // of a node in its rack
    };
    std::vector<Place> places_;                      // of each node
    std::vector<std::vector<std::uint32_t>> racks_;  // in the order of their names
};

}  // namespace holdfast
