// Pieces: objects that are boxes of an array, in one of the cells that it is divided into, at one
// version. A piece's bytes are its elements in C order. Its key is
//
//     @space/ R / V / K+M / S.U / CELL  NUL  version u64, start u32 and count u32 of each
//     dimension,
//                                            generation u16
//
// The head, up to NUL, is text and decides who owns it: V names a variable of a space, and CELL is
// the cell's box in the whole array, `0:64,64:128`. What comes behind is big-endian, so that all
// pieces of a cell and version lie next to each other in the order of keys, and starts are relative
// to the cell. Values: no I/O, nothing blocks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.hpp"
#include "store/box.hpp"

namespace holdfast {

constexpr std::string_view kSpacePrefix = "@space/";

// A box of an array whose parts are counted from its beginning.
struct Cell {
    std::size_t dimensions = 0;
    std::array<std::uint64_t, kMaxDimensions> starts = {};
    std::array<std::uint32_t, kMaxDimensions> counts = {};

    // Nothing if it is no head of a piece.
    static std::optional<Cell> of(std::string_view head);
    // Whether a box is one, has elements, and lies in it.
    bool has(const Box& box) const;
    // Where a box of it lies in the array, as in a head.
    std::string text(const Box& box) const;
};

struct PieceKey {
    std::string head;
    Cell cell;  // that the head names
    std::uint64_t version = 0;
    Box box;
    std::uint16_t generation = 0;

    // Whether a key is meant to be one.
    static bool is_one(std::string_view key) {
        return key.starts_with(kSpacePrefix) && key.find('\0') != key.npos;
    }
    // BadInput if it is malformed, or if its box is empty or leaves its cell.
    static Result<PieceKey> parse(std::string_view key);
    // BadInput if an object of so many bytes cannot be stored under it, as a piece that it is.
    static Status check(const std::string& key, std::uint64_t size);
    // What the keys of all pieces of a cell and version begin with.
    static std::string scope(std::string_view head, std::uint64_t version);

    std::string format() const;
    std::string scope() const { return scope(head, version); }
    // The variable and space that the head names.
    std::string_view variable() const;
    // The box of another key with this scope; nothing if that is malformed.
    std::optional<Box> box_of(std::string_view other) const;
};

// Calls `found` with each entry of a map by keys that is a piece of the same cell and version with
// an element in common, in order; also with that of the key itself.
template <typename Map, typename Found>
void for_each_overlapping(const PieceKey& piece, Map& map, Found found) {
    std::string scope = piece.scope();
    for (auto entry = map.lower_bound(scope); entry != map.end() && entry->first.starts_with(scope);
         ++entry)
        if (auto box = piece.box_of(entry->first); box && intersect(*box, piece.box)) found(*entry);
}

}  // namespace holdfast
