#include "placement/ring.hpp"

#include <algorithm>
#include <utility>

#include "base/hash.hpp"

namespace holdfast {
namespace {

// Keeps positions of virtual nodes apart from positions of keys, whatever a key contains.
constexpr std::uint64_t kLabelSeed = 1;

void append_u32(std::string& out, std::uint32_t value) {
    for (int shift = 0; shift < 32; shift += 8) out.push_back(static_cast<char>(value >> shift));
}

}  // namespace

Ring::Ring(std::vector<std::string> nodes, std::uint32_t virtual_nodes) : nodes_(std::move(nodes)) {
    std::sort(nodes_.begin(), nodes_.end());
    std::vector<std::pair<std::uint64_t, std::uint32_t>> points;
    points.reserve(nodes_.size() * virtual_nodes);
    std::string label;
    for (std::uint32_t node = 0; node < nodes_.size(); ++node) {
        for (std::uint32_t index = 0; index < virtual_nodes; ++index) {
            label.clear();
            append_u32(label, static_cast<std::uint32_t>(nodes_[node].size()));
            label += nodes_[node];
            append_u32(label, index);
            points.emplace_back(xxh3_64(label, kLabelSeed), node);
        }
    }
    std::sort(points.begin(), points.end());  // indices are in the order of names: ties agree
    positions_.reserve(points.size());
    owners_.reserve(points.size());
    for (auto [position, node] : points) {
        positions_.push_back(position);
        owners_.push_back(node);
    }
}

std::vector<std::uint32_t> Ring::owners(std::string_view key, std::size_t count) const {
    std::vector<std::uint32_t> found(std::min(count, nodes_.size()));
    found.resize(owners(key, found));
    return found;
}

std::size_t Ring::owners(std::string_view key, std::span<std::uint32_t> out) const {
    if (positions_.empty()) return 0;
    std::size_t wanted = std::min(out.size(), nodes_.size()), count = 0;
    auto start = static_cast<std::size_t>(
        std::lower_bound(positions_.begin(), positions_.end(), xxh3_64(key)) - positions_.begin());
    for (std::size_t step = 0; step < owners_.size() && count < wanted; ++step) {
        std::size_t at = start + step;
        std::uint32_t node = owners_[at < owners_.size() ? at : at - owners_.size()];
        auto found = out.first(count);
        if (std::find(found.begin(), found.end(), node) == found.end()) out[count++] = node;
    }
    return count;
}

}  // namespace holdfast
