// What a mount is told when it starts, as words NAME=VALUE. Value types; parse_settings() may look
// at the roots and so may block.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/status.hpp"
#include "store/object.hpp"

namespace holdfast::mount {

struct Root {
    std::string path;     // absolute, without "..", without a slash at its end
    std::string alias;    // the same with its links resolved
    bool spread = false;  // its files come from their owners on the ring, not down a tree
};

struct Settings {
    std::string point;    // where it is mounted
    std::string control;  // the socket on which it is asked; empty: none
    std::string agent;    // the address of the node's agent; empty: none
    std::vector<Root> roots;
    Duration deadline = std::chrono::seconds(2);
    std::uint64_t settled_ns = 0;
    std::uint64_t parts_above = 32 << 20;  // larger files of broadcast roots are read in parts
    std::uint64_t file_largest = 0;        // of spread roots; 0: the agent decides
    Tier tier = Tier::Disk;                // of spread roots
    Duration ttl{};                        // what is known is looked at again after this; 0: never

    // The innermost root at or above a path; null if it lies below none.
    const Root* root_of(const std::string& path) const;
    // The path as the mount shows it, if it lies below a root; else unchanged.
    std::string shown(const std::string& target) const;
};

Result<Settings> parse_settings(int count, char** words);

// Whether `path` is `top` or lies below it.
bool is_at_or_below(const std::string& path, const std::string& top);

}  // namespace holdfast::mount
