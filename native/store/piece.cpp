#include "store/piece.hpp"

#include <charconv>
#include <concepts>
#include <limits>
#include <vector>

namespace holdfast {
namespace {

constexpr std::size_t kParts = 5;  // of a head, behind the prefix

std::vector<std::string_view> split(std::string_view text, char by) {
    std::vector<std::string_view> parts;
    for (std::size_t at = 0; at != text.npos;) {
        std::size_t end = text.find(by, at);
        parts.push_back(text.substr(at, end - at));
        at = end == text.npos ? end : end + 1;
    }
    return parts;
}

// As it is written here, and no other way: one cell has one head.
std::optional<std::uint64_t> decimal(std::string_view text) {
    std::uint64_t value = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    bool whole = error == std::errc() && end == text.data() + text.size();
    if (!whole || (text.size() > 1 && text.front() == '0')) return std::nullopt;
    return value;
}

template <std::unsigned_integral T>
void write(std::string& out, T value) {
    for (std::size_t shift = 8 * sizeof(T); shift > 0; shift -= 8)
        out.push_back(static_cast<char>(value >> (shift - 8)));
}

template <std::unsigned_integral T>
T read(std::string_view& from) {
    std::uint64_t value = 0;
    for (char byte : from.substr(0, sizeof(T)))
        value = value << 8 | static_cast<unsigned char>(byte);
    from.remove_prefix(sizeof(T));
    return static_cast<T>(value);
}

constexpr std::size_t tail_bytes(std::size_t dimensions) {
    return sizeof(std::uint64_t) + 2 * sizeof(std::uint32_t) * dimensions + sizeof(std::uint16_t);
}

Box read_box(std::string_view& from, std::size_t dimensions) {
    Box box{dimensions};
    for (std::size_t d = 0; d < dimensions; ++d) {
        box.sides[d].start = read<std::uint32_t>(from);
        box.sides[d].count = read<std::uint32_t>(from);
    }
    return box;
}

}  // namespace

std::optional<Cell> Cell::of(std::string_view head) {
    if (!head.starts_with(kSpacePrefix)) return std::nullopt;
    auto parts = split(head.substr(kSpacePrefix.size()), '/');
    if (parts.size() != kParts || head.find('\0') != head.npos) return std::nullopt;
    for (auto part : parts)
        if (part.empty()) return std::nullopt;
    auto sides = split(parts.back(), ',');
    if (sides.size() > kMaxDimensions) return std::nullopt;
    Cell cell{sides.size()};
    for (std::size_t d = 0; d < sides.size(); ++d) {
        std::size_t colon = sides[d].find(':');
        if (colon == sides[d].npos) return std::nullopt;
        auto start = decimal(sides[d].substr(0, colon)), stop = decimal(sides[d].substr(colon + 1));
        if (!start || !stop || *start >= *stop ||
            *stop - *start > std::numeric_limits<std::uint32_t>::max())
            return std::nullopt;
        cell.starts[d] = *start;
        cell.counts[d] = static_cast<std::uint32_t>(*stop - *start);
    }
    return cell;
}

bool Cell::has(const Box& box) const {
    if (box.dimensions != dimensions) return false;
    for (std::size_t d = 0; d < dimensions; ++d)
        if (box.sides[d].count == 0 || box.sides[d].stop() > counts[d]) return false;
    return true;
}

std::string Cell::text(const Box& box) const {
    std::string text;
    for (std::size_t d = 0; d < box.dimensions; ++d)
        text += (d > 0 ? "," : "") + std::to_string(starts[d] + box.sides[d].start) + ":" +
                std::to_string(starts[d] + box.sides[d].stop());
    return text;
}

Result<PieceKey> PieceKey::parse(std::string_view key) {
    auto refused = [&](const char* why) {
        return Status(Code::BadInput, "'" + std::string(key.substr(0, key.find('\0'))) +
                                          "' and what follows is no key of a piece: " + why +
                                          "; put arrays with job.space");
    };
    std::size_t end = key.find('\0');
    if (end == key.npos) return refused("nothing follows");
    auto cell = Cell::of(key.substr(0, end));
    if (!cell) return refused("it names no variable and cell");
    std::string_view tail = key.substr(end + 1);
    if (tail.size() != tail_bytes(cell->dimensions))
        return refused("its box has not as many dimensions as its cell");
    PieceKey piece{std::string(key.substr(0, end)), *cell, read<std::uint64_t>(tail), {}, 0};
    piece.box = read_box(tail, cell->dimensions);
    piece.generation = read<std::uint16_t>(tail);
    if (!cell->has(piece.box)) return refused("its box is empty or leaves its cell");
    return piece;
}

Status PieceKey::check(const std::string& key, std::uint64_t size) {
    if (!is_one(key)) return {};
    auto piece = parse(key);
    if (!piece.ok()) return piece.take_status();
    auto volume = piece->box.volume();
    if (volume && size > 0 && size % *volume == 0) return {};
    return Status(Code::BadInput, "the box " + piece->cell.text(piece->box) + " of '" +
                                      std::string(piece->variable()) + "' has " +
                                      (volume ? std::to_string(*volume) : std::string("too many")) +
                                      " elements, which cannot have " + std::to_string(size) +
                                      " bytes together");
}

std::string PieceKey::scope(std::string_view head, std::uint64_t version) {
    std::string scope(head);
    scope.push_back('\0');
    write(scope, version);
    return scope;
}

std::string PieceKey::format() const {
    std::string key = scope();
    for (std::size_t d = 0; d < box.dimensions; ++d) {
        write(key, box.sides[d].start);
        write(key, box.sides[d].count);
    }
    write(key, generation);
    return key;
}

std::string_view PieceKey::variable() const {
    std::string_view rest = std::string_view(head).substr(kSpacePrefix.size());
    rest.remove_prefix(rest.find('/') + 1);
    return rest.substr(0, rest.find('/'));
}

std::optional<Box> PieceKey::box_of(std::string_view other) const {
    std::string_view tail = other.substr(head.size() + 1);
    if (tail.size() != tail_bytes(cell.dimensions)) return std::nullopt;
    tail.remove_prefix(sizeof(std::uint64_t));
    Box found = read_box(tail, cell.dimensions);
    return cell.has(found) ? std::optional(found) : std::nullopt;
}

}  // namespace holdfast
