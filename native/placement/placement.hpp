// Where objects belong in one view: a ring, the members that stand on it, the tables of key spaces
// whose keys lie elsewhere, and the windows of rosters, likewise. It knows nothing of who looks at
// it, so that all members of a view can share one. Immutable once it is shared, so thread-safe;
// never blocks.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "placement/ring.hpp"
#include "placement/slot_table.hpp"
#include "placement/trees.hpp"
#include "placement/windows.hpp"

namespace holdfast {

struct Owners {
    std::array<std::uint64_t, kMaxCopies> numbers;  // of members, in order
    std::size_t count = 0;

    const std::uint64_t* begin() const { return numbers.data(); }
    const std::uint64_t* end() const { return numbers.data() + count; }
    bool contains(std::uint64_t number) const { return std::find(begin(), end(), number) != end(); }
    bool operator==(std::span<const std::uint64_t> others) const {
        return std::equal(begin(), end(), others.begin(), others.end());
    }
};

struct Placement {
    Ring ring;
    std::vector<std::uint64_t> numbers;  // of the member on each of ring.nodes()
    std::vector<std::string> addresses;  // of the same
    std::uint64_t identity = 0;          // of the view
    Trees trees = {};
    // The ring with the nodes on it whose members were lost, if there are any.
    std::optional<Ring> with_lost = {};
    // Of the key spaces, the longest prefixes first: the first that fits a key has its owners. The
    // ring has all other keys.
    std::vector<SlotTable> tables = {};
    // Of the rosters that are known; keys that lie in windows are of no key space.
    WindowTable windows = {};

    // `racks` are of the same nodes; without any, all share one.
    static std::shared_ptr<const Placement> make(Ring ring, std::vector<std::uint64_t> numbers,
                                                 std::vector<std::string> addresses,
                                                 std::uint64_t identity,
                                                 std::vector<std::string> racks = {},
                                                 std::optional<Ring> with_lost = std::nullopt,
                                                 std::vector<SlotTable> tables = {},
                                                 WindowTable windows = {}) {
        racks.resize(numbers.size());
        std::ranges::stable_sort(tables, std::ranges::greater(),
                                 [](const SlotTable& table) { return table.prefix.size(); });
        return std::make_shared<const Placement>(
            Placement{std::move(ring), std::move(numbers), std::move(addresses), identity,
                      Trees(racks), std::move(with_lost), std::move(tables), std::move(windows)});
    }

    bool same_owners(const Placement& other) const {
        return numbers == other.numbers && ring == other.ring && tables == other.tables &&
               windows == other.windows;
    }
    // The table of the key space in which `key` lies; null: it lies on the ring or in a window.
    const SlotTable* table(std::string_view key) const {
        if (WindowTable::has(key)) return nullptr;
        auto found = std::ranges::find_if(tables, [&](auto& table) { return table.has(key); });
        return found == tables.end() ? nullptr : &*found;
    }
    // Fewer if there are fewer, and never more than kMaxCopies. Of a key space or a window some may
    // be left out, of the ring nobody is.
    Owners owners(std::string_view key, std::size_t copies,
                  std::span<const std::uint64_t> without = {}) const {
        Owners found;
        copies = std::min(copies, kMaxCopies);
        if (WindowTable::has(key)) {
            found.count = windows.owners(key, without, std::span(found.numbers).first(copies));
            return found;
        }
        if (const SlotTable* here = table(key)) {
            found.count = here->owners(key, without, std::span(found.numbers).first(copies));
            return found;
        }
        std::array<std::uint32_t, kMaxCopies> nodes;
        found.count = ring.owners(key, std::span(nodes).first(copies));
        for (std::size_t i = 0; i < found.count; ++i) found.numbers[i] = numbers[nodes[i]];
        return found;
    }
};

using PlacementPtr = std::shared_ptr<const Placement>;

}  // namespace holdfast
