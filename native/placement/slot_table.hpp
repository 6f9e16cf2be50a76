// Who owns the keys of one key space, all that begin alike: a table of slots, each with the members
// that own its keys, in order. The slot of a key is the hash of what precedes its first zero byte,
// modulo their number. src/holdfast/placement/slot_table.py spells it out and is equal to it for
// every key. Immutable once it is shared, so thread-safe; never blocks.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast {

struct SlotTable {
    std::string prefix;
    std::vector<std::vector<std::uint64_t>> slots;  // numbers of members, all different in each
    std::size_t may_leave_out = 0;                  // how many owners a put or a drop may leave out

    bool has(std::string_view key) const { return key.starts_with(prefix); }
    // Of the slot of `key`, in order.
    std::span<const std::uint64_t> members(std::string_view key) const;
    // The first owners of `key` into `out`, as if those `without` were not in its slot; gives how
    // many there are.
    std::size_t owners(std::string_view key, std::span<const std::uint64_t> without,
                       std::span<std::uint64_t> out) const;
    bool operator==(const SlotTable&) const = default;
};

}  // namespace holdfast
