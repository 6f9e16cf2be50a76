// From a path below a root to the file that it names, without opening it: the descriptor only
// stands for the file (O_PATH). What leads out of the root is not followed. All of it may block.
#pragma once

#include <string>
#include <vector>

#include "base/fd.hpp"
#include "base/status.hpp"
#include "files/messages.hpp"

namespace holdfast {

struct Place {
    Fd fd;
    Attributes attributes;
};

// NotCached if there is no such file there, whatever the reason.
Result<Place> resolve(const FileOrder& order);

// The root itself.
Result<Place> resolve_root(const std::string& root);

// The two ways to do it. By the kernel alone, where an absolute link counts as leading out;
// Unavailable if it does not know how.
Result<Fd> resolve_beneath(const Fd& root, const std::string& relative);
// Else by where the file turns out to lie.
Result<Fd> resolve_and_compare(const Fd& root, const std::string& relative);

// Opens the file for reading. NotCached if it is no longer what was seen.
Result<Fd> open_place(const Place& place);
// The same for a directory, to be listed.
Result<Fd> open_directory(const Place& place);

// The names that a path below a root leads through, all as if below that root: each symbolic link,
// each directory that is left again, and what is there in the end.
Result<std::vector<std::string>> names_on_the_way(const std::string& root, const std::string& path);

// Whether other names may lead through what is there to something else: a symbolic link or a
// directory that is not empty. What cannot be looked at counts.
bool is_way_to_others(const std::string& path);

}  // namespace holdfast
