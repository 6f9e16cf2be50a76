// The shared file system itself, for what no agent gives. Errors are its own, as errno.
// Thread-safe; everything here may block for as long as the shared file system does.
#pragma once

#include <string>

#include "base/fd.hpp"
#include "files/listing.hpp"
#include "mount/guard.hpp"

namespace holdfast::mount {

// A value, or the errno that a program would have met.
template <typename T>
struct OriginalResult {
    T value{};
    int error = 0;
};

// Opens what the path names, not following a link at its end; paths may be of any length.
OriginalResult<Fd> open_original(const std::string& path, int flags);

// ELOOP for what lies on a mount of ours.
OriginalResult<Attributes> look_at_original(const std::string& path, const Guard& guard);
OriginalResult<std::string> link_of_original(const std::string& path);

// ESTALE if the directory there is no longer the one with that inode.
OriginalResult<Listing> list_original(const std::string& path, std::uint64_t inode,
                                      const Guard& guard);

// A regular file for reading; ESTALE if it is not that version of it.
OriginalResult<Fd> open_version(const std::string& path, const Identity& version,
                                const Guard& guard);
// Whether what was read through `fd` until now belongs to that version.
bool is_version(int fd, const Identity& version);

}  // namespace holdfast::mount
