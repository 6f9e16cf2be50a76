// Bytes of an object, read from the front to the back, a chunk at a time. For one thread; reads
// files, which may block. The object must outlive it.
#pragma once

#include <optional>
#include <string_view>

#include "base/fd.hpp"
#include "base/scratch.hpp"
#include "base/status.hpp"
#include "store/object.hpp"

namespace holdfast {

class ObjectReader {
  public:
    // `file` is the object's, unless it is in the heap. Bytes are `verified` before they are given,
    // if they are all there and have checksums.
    ObjectReader(const Object& object, Fd file, bool verified);

    // What lies at an offset, in one piece: at least a byte, if any are left, at most as many as
    // are asked for. Good until the next call. Damaged if it cannot be read, or is not what its
    // checksum is of.
    Result<std::string_view> peek(std::uint64_t offset, std::uint64_t most);
    // `count` items that lie `step` bytes apart, one behind the other.
    Status gather(std::uint64_t offset, std::uint64_t step, std::uint64_t count, std::size_t item,
                  char* out);

  private:
    Status load(std::uint64_t offset);

    const Object& object_;
    Fd file_;
    bool verified_;
    std::optional<Scratch> chunk_;
    // What is there of it now.
    std::string_view window_;
    std::uint64_t begin_ = 0;
};

}  // namespace holdfast
