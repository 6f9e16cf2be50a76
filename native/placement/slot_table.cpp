#include "placement/slot_table.hpp"

#include <algorithm>

#include "base/hash.hpp"

namespace holdfast {

std::span<const std::uint64_t> SlotTable::members(std::string_view key) const {
    if (slots.empty()) return {};
    return slots[xxh3_64(key.substr(0, key.find('\0'))) % slots.size()];
}

std::size_t SlotTable::owners(std::string_view key, std::span<const std::uint64_t> without,
                              std::span<std::uint64_t> out) const {
    std::size_t count = 0;
    for (std::uint64_t member : members(key)) {
        if (count == out.size()) break;
        if (std::ranges::find(without, member) == without.end()) out[count++] = member;
    }
    return count;
}

}  // namespace holdfast
