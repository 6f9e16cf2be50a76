// Pieces, and a plain model of what is to come of them.
#pragma once

#include <random>

#include "store/piece.hpp"
#include "support.hpp"

namespace holdfast::test {

// The head of a cell that belongs to exactly these, in this order, once they agree.
inline std::string head_of(const std::vector<Node*>& owners, const std::string& cell) {
    auto placement = owners.front()->agent().placement().get();
    std::vector<std::uint64_t> wanted;
    for (Node* owner : owners) wanted.push_back(owner->number);
    for (std::string roster : kRosters)
        for (std::size_t start = 0; start < placement->numbers.size(); ++start) {
            std::string head = std::string(kSpacePrefix) + roster + "/run:T/1+1/" +
                               std::to_string(start) + ".0/" + cell;
            if (placement->owners(head, wanted.size()) == wanted) return head;
        }
    FAIL("no cell belongs to these owners; do they agree?");
    return {};
}

inline Box box(const std::vector<Box::Side>& sides) {
    Box made{sides.size()};
    std::copy(sides.begin(), sides.end(), made.sides.begin());
    return made;
}

inline std::string piece(const std::string& head, const Box& box, std::uint64_t version = 7) {
    auto cell = Cell::of(head);
    REQUIRE(cell);
    return PieceKey{head, *cell, version, box}.format();
}

inline Box random_box(const std::vector<std::uint32_t>& shape, std::mt19937_64& random) {
    Box made{shape.size()};
    for (std::size_t d = 0; d < shape.size(); ++d) {
        auto start = static_cast<std::uint32_t>(random() % shape[d]);
        made.sides[d] = {start, static_cast<std::uint32_t>(1 + random() % (shape[d] - start))};
    }
    return made;
}

// Calls `at` with the coordinates of each element, in C order.
template <typename At>
void for_each_element(const Region& region, At at) {
    std::vector<std::uint32_t> i(region.box.dimensions), place(region.box.dimensions);
    std::uint64_t count = *region.box.volume();
    for (std::uint64_t n = 0; n < count; ++n) {
        std::uint64_t rest = n;
        for (std::size_t d = i.size(); d-- > 0; rest /= region.box.sides[d].count)
            i[d] = static_cast<std::uint32_t>(rest % region.box.sides[d].count);
        for (std::size_t d = 0; d < i.size(); ++d)
            place[d] = region.box.sides[d].start + i[d] * region.steps[d];
        at(place);
    }
}

// A cell as an array in memory: its elements, and which of them there are.
struct Model {
    Model(std::vector<std::uint32_t> of, std::size_t bytes) : shape(std::move(of)), item(bytes) {
        std::size_t count = 1;
        for (auto side : shape) count *= side;
        values = random_bytes(count * item, count);
        is_there.resize(count);
    }
    std::size_t index(const std::vector<std::uint32_t>& place) const {
        std::size_t at = 0;
        for (std::size_t d = 0; d < shape.size(); ++d) at = at * shape[d] + place[d];
        return at;
    }
    std::string bytes(const Region& region) const {
        std::string out;
        for_each_element(region,
                         [&](auto& place) { out.append(values, index(place) * item, item); });
        return out;
    }
    std::string bytes(const Box& box) const { return bytes(Region::all_of(box)); }
    void add(const Box& box) {
        for_each_element(Region::all_of(box), [&](auto& at) { is_there[index(at)] = true; });
    }
    bool has(const Box& box) const {
        bool all = true;
        for_each_element(Region::all_of(box), [&](auto& at) { all &= is_there[index(at)]; });
        return all;
    }
    std::string cell() const {
        std::string text;
        for (auto side : shape) text += (text.empty() ? "0:" : ",0:") + std::to_string(side);
        return text;
    }

    std::vector<std::uint32_t> shape;
    std::size_t item;
    std::string values;
    std::vector<bool> is_there;
};

}  // namespace holdfast::test
