// A directory as one document: its own attributes, and each entry with its name, its attributes
// (those of a link itself) and, for a link, its target. It travels and is kept like a file.
// Value types; read_listing() and list_directory() may block, the rest does no I/O.
#pragma once

#include <string>
#include <vector>

#include "base/status.hpp"
#include "files/messages.hpp"

namespace holdfast {

struct Entry {
    std::string name;
    Attributes attributes;  // mode 0: it is there, but could not be looked at
    std::string target;     // of a symbolic link
    bool operator==(const Entry&) const = default;
};

struct Listing {
    Attributes directory;
    std::vector<Entry> entries;  // in the order of their names

    // Null if there is none of that name.
    const Entry* find(std::string_view name) const;
    std::string encode() const;
    static Result<Listing> decode(std::string_view document);
};

// A document of `size` bytes, from its file: a disk that fails is an error, as it would not be
// with a map of it.
Result<Listing> read_listing(int file, std::size_t size);

// Reads the directory of the shared file system once. `path` is the root or a plain path below it
// (FileOrder::below_root). NotCached if it is no directory, changed meanwhile, lies on another file
// system than its root, or cannot be read, whatever the reason. With Changing::Taken it may have
// changed: names that came or went meanwhile may be in the listing or not.
enum class Changing { Refused, Taken };
Result<Listing> list_directory(const std::string& root, const std::string& path,
                               Changing changing = Changing::Refused);

}  // namespace holdfast
