// What a mount is told when it starts, as words NAME=VALUE. Value types; parse_settings() may look
// at the roots and so may block.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/status.hpp"
#include "files/messages.hpp"

namespace holdfast::mount {

struct Root {
    std::string path;     // absolute, without "..", without a slash at its end
    std::string alias;    // the same with its links resolved
    bool spread = false;  // its files come from their owners on the ring, not down a tree
    // What sets the numbers of its files apart from those of other file systems of the mount.
    std::uint64_t space = 0;
};

// All that a mount shows is on one device, so files of its several file systems must differ in
// their numbers. Those on that of the first root keep theirs: space 0. The space of any other
// follows from the path at which it begins and not from its device, which is another one on each
// node and after it was mounted anew. Within a space, numbers stay different, and other names of a
// file have the same. No number of space 0 is met by another, as long as file systems give none
// above 2^62. Two other spaces can only meet if they agree in all bits above those that numbers
// have: where these are below 2^40, one pair of file systems in four million.
std::uint64_t space_beginning_at(const std::string& path);
inline std::uint64_t number_in(std::uint64_t space, std::uint64_t inode) {
    return space ^ inode;
}

struct Settings {
    std::string point;    // where it is mounted
    std::string control;  // the socket on which it is asked; empty: none
    std::string agent;    // the address of the node's agent; empty: none
    std::vector<Root> roots;
    Duration deadline = std::chrono::seconds(2);
    FileOrder order;  // of files, without root and path; of its settled_ns also for trees
    std::uint64_t parts_above = 32 << 20;  // larger files of broadcast roots are read in parts
    Duration ttl{};                        // what is known is revalidated after this; 0: never

    // The innermost root at or above a path; null if it lies below none.
    const Root* root_of(const std::string& path) const;
    // The path as the mount shows it, if it lies below a root; else unchanged.
    std::string shown(const std::string& target) const;
};

Result<Settings> parse_settings(int count, char** words);

// Whether `path` is `top` or lies below it.
bool is_at_or_below(const std::string& path, const std::string& top);

}  // namespace holdfast::mount
