// Windows of rosters, in one view: who owns the keys that name a roster and a place in it.
// src/holdfast/placement/windows.py spells it out and is equal to it for every key. Immutable once
// it is shared, so thread-safe; never blocks.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "placement/ring.hpp"

namespace holdfast {

struct Roster {
    std::string id;
    std::vector<std::string> nodes;  // distinct
    std::string role;

    bool operator==(const Roster&) const = default;
};

// A member that lives.
struct WindowMember {
    std::uint64_t number = 0;
    std::string node, host, rack, role;

    bool operator==(const WindowMember&) const = default;
};

class WindowTable {
  public:
    WindowTable() = default;
    // All that live, spares too.
    WindowTable(std::vector<Roster> rosters, std::vector<WindowMember> members);

    // Whether a key lies in a window, known or not, and so not on the ring.
    static bool has(std::string_view key);

    // The first owners of `key` into `out`, as if those `without` were dead; gives how many there
    // are, none if the key names no place or an unknown roster.
    std::size_t owners(std::string_view key, std::span<const std::uint64_t> without,
                       std::span<std::uint64_t> out) const;

    bool operator==(const WindowTable&) const = default;

  private:
    static constexpr std::uint32_t kNone = ~std::uint32_t{0};

    struct Standing {
        Roster roster;
        std::vector<std::uint32_t> members;  // of each slot
        std::vector<std::uint32_t> slots;    // of each member

        bool operator==(const Standing&) const = default;
    };
    struct Unit {
        std::string_view stripe, roster;
        std::uint64_t units, survive, start, unit;
    };
    struct Taken {
        std::array<std::uint32_t, kMaxCopies> members;
        std::size_t count = 0;

        bool has(std::uint32_t member) const;
    };

    static bool read(std::string_view key, Unit& unit);
    std::uint32_t stand_in(const Standing& standing, const Unit& unit, std::size_t slot,
                           const Taken& taken, std::span<const std::uint64_t> without) const;
    const std::string& host(std::uint32_t member) const;

    std::vector<WindowMember> members_;                     // by node
    std::map<std::string, Standing, std::less<>> rosters_;  // by id
};

}  // namespace holdfast
