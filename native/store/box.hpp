// Boxes of elements of an array, and what they share. Values: no I/O, nothing blocks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace holdfast {

constexpr std::size_t kMaxDimensions = 8;

// Of each dimension the first element and how many; beyond its dimensions all is zero.
struct Box {
    struct Side {
        std::uint32_t start = 0, count = 0;
        std::uint64_t stop() const { return std::uint64_t{start} + count; }
        bool operator==(const Side&) const = default;
    };
    std::size_t dimensions = 0;
    std::array<Side, kMaxDimensions> sides = {};

    bool operator==(const Box&) const = default;
    // How many elements it has; nothing if 64 bits do not hold that.
    std::optional<std::uint64_t> volume() const;
};

// Nothing if they share no element. Both have as many dimensions.
std::optional<Box> intersect(const Box& one, const Box& other);
// Adds what is left of `whole` without `hole`, in boxes that do not overlap.
void subtract(const Box& whole, const Box& hole, std::vector<Box>& rest);

// Elements of an array: `box` says which is the first and how many there are, `steps` how far they
// lie apart.
struct Region {
    Box box;
    std::array<std::uint32_t, kMaxDimensions> steps = {};

    static Region all_of(const Box& box);
    // The first and the last one, and all between them; nothing if 32 bits do not hold it.
    std::optional<Box> bounds() const;
};

// The elements of a region that a box has, row by row: where each lies in the box and where in the
// region, both in C order.
class Walk {
  public:
    Walk(const Region& region, const Box& box);

    bool empty() const { return empty_; }

    // Calls `row(from, step, to, count)`, all in elements: `count` of them that lie `step` apart in
    // the box and next to each other in the region. Both go up. Ends early when that returns false.
    template <typename Row>
    bool rows(Row row) const {
        std::array<std::uint64_t, kMaxDimensions> at{};
        std::uint64_t from = from_, to = to_;
        auto& last = sides_[dimensions_ - 1];
        for (std::size_t d; !empty_;) {
            if (!row(from, last.from, to, last.count)) return false;
            for (d = dimensions_ - 1; d-- > 0;) {
                from += sides_[d].from, to += sides_[d].to;
                if (++at[d] < sides_[d].count) break;
                from -= sides_[d].from * at[d], to -= sides_[d].to * at[d];
                at[d] = 0;
            }
            if (d >= dimensions_) break;
        }
        return true;
    }

  private:
    struct Side {
        std::uint64_t count, from, to;  // elements, and how far the next is, here and there
    };
    void join();

    std::size_t dimensions_;
    std::array<Side, kMaxDimensions> sides_;
    std::uint64_t from_ = 0, to_ = 0;
    bool empty_ = false;
};

}  // namespace holdfast
