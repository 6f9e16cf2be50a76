#include "placement/trees.hpp"

#include <map>

#include "base/hash.hpp"

namespace holdfast {
namespace {

// Keeps the shape of a tree apart from where its head lies on the ring.
constexpr std::uint64_t kShapeSeed = 2;

// `count` things of which one is first and the others follow it in their order, turned by `turn`:
// the position of one of them, and which of them stands at a position.
struct Turned {
    std::uint64_t count, first, turn;

    std::uint64_t position(std::uint64_t index) const {
        if (index == first) return 0;
        std::uint64_t others = count - 1, other = index < first ? index : index - 1;
        return (other + others - turn % others) % others + 1;
    }
    std::uint64_t at(std::uint64_t position) const {
        if (position == 0) return first;
        std::uint64_t other = (position - 1 + turn) % (count - 1);
        return other < first ? other : other + 1;
    }
};

}  // namespace

Trees::Trees(const std::vector<std::string>& racks) {
    std::map<std::string, std::vector<std::uint32_t>> members;
    for (std::uint32_t node = 0; node < racks.size(); ++node) members[racks[node]].push_back(node);
    places_.resize(racks.size());
    for (auto& [name, nodes] : members) {
        for (std::uint32_t index = 0; index < nodes.size(); ++index)
            places_[nodes[index]] = {static_cast<std::uint32_t>(racks_.size()), index};
        racks_.push_back(std::move(nodes));
    }
}

std::vector<std::uint32_t> Trees::ancestors(const Ring& ring, std::string_view key,
                                            std::uint32_t node, std::uint32_t degree) const {
    std::uint32_t head = 0;
    ring.owners(key, {&head, 1});
    if (node >= places_.size()) return {head};
    if (node == head) return {};
    std::uint64_t shape = xxh3_64(key.substr(0, key.find('\0')), kShapeSeed);
    const Place& top = places_[head];
    auto inside = [&](std::uint64_t rack) {
        std::uint64_t count = racks_[rack].size();
        return Turned{count, rack == top.rack ? top.index : shape % count, shape / count};
    };
    std::vector<std::uint32_t> found;
    const Place& place = places_[node];
    Turned members = inside(place.rack);
    for (auto at = members.position(place.index); at > 0;) {
        at = (at - 1) / degree;
        found.push_back(racks_[place.rack][members.at(at)]);
    }
    Turned racks{racks_.size(), top.rack, shape >> 32};
    for (auto at = racks.position(place.rack); at > 0;) {
        at = (at - 1) / degree;
        std::uint64_t rack = racks.at(at);
        found.push_back(racks_[rack][inside(rack).first]);
    }
    return found;
}

}  // namespace holdfast
