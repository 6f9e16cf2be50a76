// What readers of files ask for and are told, and the keys under which copies of files are kept.
// Pure functions: no I/O.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "store/object.hpp"

namespace holdfast {

// What makes a file of the shared file system the same file as before.
struct Identity {
    std::uint64_t inode = 0, size = 0, mtime_ns = 0, ctime_ns = 0;
    bool operator==(const Identity&) const = default;
};

// The original's, as far as a program can ask for them. Times before 1970 are written as two's
// complement.
struct Attributes {
    std::uint32_t mode = 0, uid = 0, gid = 0;
    std::uint64_t nlink = 0, inode = 0, device = 0, size = 0, blocks = 0;
    std::uint64_t atime_ns = 0, mtime_ns = 0, ctime_ns = 0;
    // Whether no symbolic link was on the way to it; known where it was looked at, and not told to
    // others.
    bool direct = false;

    static Attributes of(const struct stat& info);
    Identity identity() const { return {inode, size, mtime_ns, ctime_ns}; }
    std::string encode() const;
    static Result<Attributes> decode(const std::string& meta);
    bool operator==(const Attributes&) const = default;
};

// Whether the last change is long enough ago that another within the same tick of the file system's
// clock is out of the question.
bool settled(const Attributes& attributes, std::uint64_t settled_ns);

// Files that are read in parts are read in parts of this size; the last one may be shorter.
constexpr std::uint64_t kPartBytes = 4 << 20;
// Files of the ring up to this size come whole, also to whoever asks for a part.
constexpr std::uint64_t kWholeBytes = 8 * kPartBytes;

struct Range {
    std::uint64_t begin = 0, size = 0;
    bool operator==(const Range&) const = default;
};

// What the request does that meets a failed owner.
enum class OnFailure : std::uint8_t {
    Abort = 0,     // Unavailable
    Redirect = 1,  // NotCached
    Recache = 2,   // asks the next owner
};

// What a reader wants, and under which policy.
struct FileOrder {
    std::string root, path;  // absolute; the path is the root, "/" and the rest, without ".."
    Tier tier = Tier::Memory;
    std::uint16_t copies = 1;
    bool validate = false;         // look at the file first, whatever is known of it
    std::uint64_t largest = 0;     // larger files are not cached; 0: a quarter of the tier
    std::uint64_t settled_ns = 0;  // files that changed less long ago are served but not kept
    OnFailure on_failure = OnFailure::Recache;  // for agents that ask the owners
    bool stands_in = false;  // the owners before the one that is asked have failed
    // If a part of a large file is enough: which, from 0.
    std::optional<std::uint32_t> part = {};

    // What is sent of a file of that size. NotCached if it has no such part.
    Result<Range> range(std::uint64_t size) const;
    // The path below the root. NotCached if it is not there, not in its shortest form or too long.
    Result<std::string> below_root() const;
    std::string encode() const;
    static Result<FileOrder> decode(const std::string& meta);
    // The same without root and path, which come before it: for programs that are told once how
    // they are to order files. Decoded, both are empty.
    std::string encode_template() const;
    static Result<FileOrder> decode_template(const std::string& meta);
};

// What a program is told that asked for a part: what it was passed, which may be the whole file.
struct PartReply {
    Attributes attributes;
    Range range;
    std::string encode() const;
    static Result<PartReply> decode(const std::string& meta);
};

// What is asked of the tree of a broadcast path: by a program of its agent, by an agent of the one
// above it.
struct TreeOrder {
    // A whole file; the listing of a directory (listing.hpp); one part of a large file, which comes
    // from the head itself.
    enum class Kind : std::uint8_t { File = 0, Listing = 1, Part = 2 };
    Kind kind = Kind::File;
    std::string root, path;  // as in a FileOrder; a listing may be that of the root itself
    std::uint32_t part = 0;  // which, from 0
    std::uint64_t settled_ns = 0;
    // How many nodes further up may still be asked; a program says kMostHops. So requests end,
    // whatever the nodes believe of one another.
    std::uint8_t hops = kMostHops;
    bool stands_in = false;  // the heads before the one that is asked have failed
    // Refreshes that the asker has heard of lately: what was seen before them is no answer.
    std::vector<std::uint64_t> refreshes = {};

    static constexpr std::uint8_t kMostHops = 16;
    static constexpr std::size_t kMostRefreshes = 16;
    // NotCached if it is neither the root nor, in its shortest form, a path below it.
    Status check() const;
    std::string encode() const;
    static Result<TreeOrder> decode(const std::string& meta);
};

// What agents answer one another to it; programs are told the attributes alone.
struct TreeReply {
    Attributes attributes;
    std::uint64_t age_ns = 0;  // since the shared file system was looked at
    bool keep = true;          // else it is too young
    std::string encode() const;
    static Result<TreeReply> decode(const std::string& meta);
};

// A path that is invalidated: named by a program, or, as the key that says so, by a member.
struct InvalidateMessage {
    std::string path, notice;  // one of them; what is said of a path, for other members
    std::string encode() const;
    static Result<InvalidateMessage> decode(const std::string& meta);
};

// Keys of objects that are copies of files begin so; no others do.
constexpr char kFilePrefix[] = "@file";
// All versions of a file have keys that begin with this; it alone decides who owns them.
std::string file_prefix(const std::string& path);
std::string file_key(const std::string& path, const Identity& identity);
// Of what a tree brings: of a whole file the same, of listings and parts others. Entries of a
// directory may change while it stays the same, so its listings are told apart by their checksums.
std::string tree_key(const TreeOrder& order, const Identity& identity, std::uint32_t listing_crc);

// The directory in which a path lies; "/" lies in itself.
std::string directory_of(const std::string& path);

}  // namespace holdfast
