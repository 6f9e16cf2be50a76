// What `boxes` carries: which elements of which cells are wanted, and which of them are here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/passing.hpp"
#include "base/status.hpp"
#include "store/box.hpp"

namespace holdfast {

struct BoxesMessage {
    static constexpr std::size_t kMost = 4096;                             // entries
    static constexpr std::uint64_t kMostBytes = std::uint64_t{256} << 20;  // of one answer
    struct Entry {
        std::string head;  // of a piece's key
        std::uint64_t version = 0;
        Region region;  // relative to the cell, within it
    };
    std::uint64_t wanted = 0;  // the member that is asked; 0: whichever lives there
    std::uint32_t item = 1;    // bytes of an element
    std::vector<Entry> entries = {};
    std::string encode() const;
    static Result<BoxesMessage> decode(const std::string& body);
};

struct BoxesReply {
    static constexpr std::size_t kMostPieces = Passing::kMost;
    enum class Kind : std::uint8_t {
        Absent = 0,  // not all of it is here
        Bytes = 1,   // in the body, behind those of the entries before
        Pieces = 2,  // in files whose descriptors come along, in order
    };
    struct Piece {
        Box box;
        std::uint64_t size = 0;
    };
    // Of what is absent: nothing of it is here; something went bad here; any other number stands
    // for the parts that are here, and is the same wherever the same ones are.
    static constexpr std::uint64_t kNothing = 0, kBad = 2, kFirstPart = 3;
    struct Entry {
        Kind kind = Kind::Absent;
        // That have all of it; of two that overlap the later counts.
        std::vector<Piece> pieces = {};
        std::uint64_t here = kNothing;  // if absent
    };
    std::vector<Entry> entries = {};
    std::string encode() const;
    static Result<BoxesReply> decode(const std::string& meta);
    std::size_t pieces() const;
};

}  // namespace holdfast
