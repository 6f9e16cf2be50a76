#include "store/box.hpp"

#include <algorithm>
#include <limits>

namespace holdfast {

std::optional<std::uint64_t> Box::volume() const {
    std::uint64_t volume = 1;
    // A side without elements makes it empty, however large the others are.
    for (std::size_t d = 0; d < dimensions; ++d)
        if (sides[d].count == 0) return 0;
    for (std::size_t d = 0; d < dimensions; ++d)
        if (__builtin_mul_overflow(volume, std::uint64_t{sides[d].count}, &volume)) return {};
    return volume;
}

std::optional<Box> intersect(const Box& one, const Box& other) {
    Box shared{one.dimensions};
    for (std::size_t d = 0; d < one.dimensions; ++d) {
        std::uint64_t start = std::max(one.sides[d].start, other.sides[d].start);
        std::uint64_t stop = std::min(one.sides[d].stop(), other.sides[d].stop());
        if (start >= stop) return std::nullopt;
        shared.sides[d] = {static_cast<std::uint32_t>(start),
                           static_cast<std::uint32_t>(stop - start)};
    }
    return shared;
}

void subtract(const Box& whole, const Box& hole, std::vector<Box>& rest) {
    auto shared = intersect(whole, hole);
    if (!shared) {
        rest.push_back(whole);
        return;
    }
    // What lies before and behind the hole in one dimension, then in the next of what is left.
    Box left = whole;
    for (std::size_t d = 0; d < whole.dimensions; ++d) {
        Box::Side side = left.sides[d], cut = shared->sides[d];
        auto add = [&](std::uint64_t start, std::uint64_t stop) {
            if (start == stop) return;
            Box part = left;
            part.sides[d] = {static_cast<std::uint32_t>(start),
                             static_cast<std::uint32_t>(stop - start)};
            rest.push_back(part);
        };
        add(side.start, cut.start);
        add(cut.stop(), side.stop());
        left.sides[d] = cut;
    }
}

Region Region::all_of(const Box& box) {
    Region region{box};
    region.steps.fill(1);
    return region;
}

std::optional<Box> Region::bounds() const {
    Box bounds{box.dimensions};
    for (std::size_t d = 0; d < box.dimensions; ++d) {
        auto [start, count] = box.sides[d];
        // No more than 2^64 - 2^33 + 2: 64 bits hold it.
        std::uint64_t extent = count == 0 ? 0 : std::uint64_t{count - 1} * steps[d] + 1;
        if (extent > std::numeric_limits<std::uint32_t>::max()) return std::nullopt;
        bounds.sides[d] = {start, static_cast<std::uint32_t>(extent)};
    }
    return bounds;
}

Walk::Walk(const Region& region, const Box& box) : dimensions_(box.dimensions), sides_() {
    std::uint64_t here = 1, there = 1;  // how far one element is from the next in a dimension
    for (std::size_t d = dimensions_; d-- > 0;) {
        std::uint64_t start = region.box.sides[d].start, count = region.box.sides[d].count;
        std::uint64_t step = region.steps[d];
        // How many elements of the region lie before a place.
        auto before = [&](std::uint64_t place) {
            return place <= start ? 0 : std::min(count, (place - start - 1) / step + 1);
        };
        std::uint64_t first = before(box.sides[d].start), stop = before(box.sides[d].stop());
        if (first >= stop) {
            empty_ = true;
            return;
        }
        sides_[d] = {stop - first, here * step, there};
        from_ += (start + first * step - box.sides[d].start) * here;
        to_ += first * there;
        here *= box.sides[d].count;
        there *= count;
    }
    join();
}

// Rows that follow each other in both are one.
void Walk::join() {
    while (dimensions_ > 1) {
        auto &outer = sides_[dimensions_ - 2], &inner = sides_[dimensions_ - 1];
        if (outer.from != inner.from * inner.count || outer.to != inner.to * inner.count) return;
        outer = {outer.count * inner.count, inner.from, inner.to};
        --dimensions_;
    }
}

}  // namespace holdfast
