// A tmpfs of this process's own, with huge pages.
//
// The tmpfs that systems provide gives files pages of 4 KiB, and what is stored, received and read
// costs more for its pages than for its bytes. One of our own may ask for larger ones. It is
// mounted nowhere: it lives as long as somebody has it, or a file of it, open, so nothing is left
// of it however we end.
#pragma once

#include <cstdint>

#include "base/fd.hpp"
#include "base/status.hpp"

namespace holdfast {

// Its top directory, mode 0700. Refused where the kernel is too old, or permits it neither to us
// nor in a user namespace. Forks, so it is for the start of a process.
Result<Fd> make_tmpfs(std::uint64_t bytes);

// Whether the kernel of such a release (as uname has it) gives huge pages only to files that have
// their size before their bytes come. Later ones go by what is written at once.
bool goes_by_size(const char* release);

}  // namespace holdfast
