#include "placement/ring.hpp"

#include <algorithm>
#include <bit>

#include "base/hash.hpp"

namespace holdfast {
namespace {

// Keeps positions of virtual nodes apart from positions of keys, whatever a key contains.
constexpr std::uint64_t kLabelSeed = 1;

void write_u32(char* out, std::uint32_t value) {
    for (int byte = 0; byte < 4; ++byte) out[byte] = static_cast<char>(value >> (8 * byte));
}

}  // namespace

Ring::Ring(std::vector<std::string> nodes, std::uint32_t virtual_nodes) : nodes_(std::move(nodes)) {
    std::sort(nodes_.begin(), nodes_.end());
    std::vector<Point> points;
    points.reserve(nodes_.size() * virtual_nodes);
    std::string label;
    for (std::uint32_t node = 0; node < nodes_.size(); ++node) {
        label.assign(4, '\0');
        write_u32(label.data(), static_cast<std::uint32_t>(nodes_[node].size()));
        label += nodes_[node];
        label.append(4, '\0');
        for (std::uint32_t index = 0; index < virtual_nodes; ++index) {
            write_u32(label.data() + label.size() - 4, index);
            points.push_back({xxh3_64(label, kLabelSeed), node});
        }
    }
    // Sorted by slot in two passes, then within each slot.
    shift_ = 64 - std::max(1, static_cast<int>(std::bit_width(points.size())));
    starts_.assign((std::size_t{1} << (64 - shift_)) + 1, 0);
    for (const Point& point : points) ++starts_[slot(point.position) + 1];
    for (std::size_t i = 1; i < starts_.size(); ++i) starts_[i] += starts_[i - 1];
    auto next = starts_;
    points_.resize(points.size());
    for (const Point& point : points) points_[next[slot(point.position)]++] = point;
    for (std::size_t i = 0; i + 1 < starts_.size(); ++i)
        if (starts_[i + 1] - starts_[i] > 1)
            std::sort(points_.begin() + starts_[i], points_.begin() + starts_[i + 1]);
}

std::vector<std::uint32_t> Ring::owners(std::string_view key, std::size_t count) const {
    std::vector<std::uint32_t> found(std::min(count, nodes_.size()));
    found.resize(owners(key, found));
    return found;
}

std::size_t Ring::owners(std::string_view key, std::span<std::uint32_t> out) const {
    std::size_t wanted = std::min(out.size(), nodes_.size()), count = 0;
    std::uint64_t hash = xxh3_64(key.substr(0, key.find('\0')));
    std::size_t at = starts_[slot(hash)], end = starts_[slot(hash) + 1];
    while (at < end && points_[at].position < hash) ++at;
    for (std::size_t step = 0; step < points_.size() && count < wanted; ++step, ++at) {
        if (at == points_.size()) at = 0;
        auto found = out.first(count);
        if (std::find(found.begin(), found.end(), points_[at].node) == found.end())
            out[count++] = points_[at].node;
    }
    return count;
}

std::vector<double> Ring::shares() const {
    if (points_.size() == 1) return {1.0};
    std::vector<double> shares(nodes_.size(), 0.0);
    for (std::size_t i = 0; i < points_.size(); ++i) {
        // Unsigned arithmetic goes around the circle by itself.
        std::uint64_t arc = points_[i].position - points_[i ? i - 1 : points_.size() - 1].position;
        shares[points_[i].node] += static_cast<double>(arc) * 0x1p-64;
    }
    return shares;
}

}  // namespace holdfast
