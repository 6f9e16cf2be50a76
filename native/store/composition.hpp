// Elements of a cell at a version, put together from the pieces that a store has. Of pieces that
// overlap, the last in the order of keys counts, at every node alike.
//
// For one thread. Objects leave the store and go bad as they will: what was found stays readable,
// or is found missing. Reads files, which may block.
#pragma once

#include <cstdint>
#include <vector>

#include "store/boxes_message.hpp"
#include "store/store.hpp"

namespace holdfast {

class Composition {
  public:
    struct Part {
        ObjectPtr object;
        Box box;
    };

    // Looks for pieces with elements of so many bytes. `wanted` must outlive it.
    Composition(Store& store, const BoxesMessage::Entry& wanted, std::uint32_t item);

    // Whether pieces have all that lies between the first element and the last one.
    bool is_covered() const { return covered_; }
    // If they have not: what is here, as in BoxesReply.
    std::uint64_t here() const { return here_; }
    // In the order of keys.
    const std::vector<Part>& parts() const { return parts_; }
    // Of the elements; nothing if 64 bits do not hold it.
    std::optional<std::uint64_t> bytes() const;
    // In C order, verified. False if a piece has gone or was found to be bad.
    Result<bool> write(Store& store, char* out) const;

  private:
    const Region& region_;
    std::uint32_t item_;
    std::vector<Part> parts_;
    bool covered_ = false;
    std::uint64_t here_ = BoxesReply::kNothing;
};

}  // namespace holdfast
