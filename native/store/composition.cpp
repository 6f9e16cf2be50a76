#include "store/composition.hpp"

#include <algorithm>

#include "base/hash.hpp"
#include "store/object_reader.hpp"
#include "store/piece.hpp"

namespace holdfast {
namespace {

constexpr std::size_t kListed = 1000;  // pieces at once

// Whether somebody else may have it; it is no trouble of this moment.
bool is_gone(const Status& status) {
    return status.code() != Code::Busy;
}

// The same for the same boxes.
std::uint64_t number_of(const std::vector<Box>& boxes) {
    std::string text;
    for (auto& box : boxes)
        for (std::size_t d = 0; d < box.dimensions; ++d)
            text +=
                std::to_string(box.sides[d].start) + ":" + std::to_string(box.sides[d].count) + ",";
    return std::max(xxh3_64(text), BoxesReply::kFirstPart);
}

}  // namespace

Composition::Composition(Store& store, const BoxesMessage::Entry& wanted, std::uint32_t item)
    : region_(wanted.region), item_(item) {
    auto cell = Cell::of(wanted.head);
    auto bounds = region_.bounds();
    if (!cell || !bounds) return;
    PieceKey any{wanted.head, *cell, wanted.version, *bounds};
    std::string scope = any.scope(), after;
    std::vector<Box> rest{*bounds}, left;
    for (bool more = true; more;) {
        auto found = store.list(scope, after, kListed);
        more = found.size() == kListed;
        if (more) after = found.back()->key;
        for (auto& object : found) {
            auto box = any.box_of(object->key);
            if (!box || !intersect(*box, *bounds)) continue;
            std::uint64_t size, volume = box->volume().value_or(0);
            if (__builtin_mul_overflow(volume, item, &size) || object->size != size) continue;
            parts_.push_back({std::move(object), *box});
            left.clear();
            for (auto& part : rest) subtract(part, *box, left);
            rest.swap(left);
        }
    }
    covered_ = rest.empty();
    if (covered_) return;
    if (!parts_.empty()) here_ = number_of(rest);
    for (auto& key : store.lost(scope))
        if (auto box = any.box_of(key); box && intersect(*box, *bounds)) here_ = BoxesReply::kBad;
}

std::optional<std::uint64_t> Composition::bytes() const {
    auto volume = region_.box.volume();
    std::uint64_t bytes;
    if (!volume || __builtin_mul_overflow(*volume, item_, &bytes)) return std::nullopt;
    return bytes;
}

Result<bool> Composition::write(Store& store, char* out) const {
    for (auto& [object, box] : parts_) {
        Walk walk(region_, box);
        if (walk.empty()) continue;
        Fd file;
        if (!object->in_heap) {
            auto opened = store.open_file(object);
            if (!opened.ok() && is_gone(opened.status())) return false;
            if (!opened.ok()) return opened.take_status();
            file = std::move(*opened);
        }
        ObjectReader reader(*object, std::move(file), true);
        Status status;
        walk.rows(
            [&](std::uint64_t from, std::uint64_t step, std::uint64_t to, std::uint64_t count) {
                status = reader.gather(from * item_, step * item_, count, item_, out + to * item_);
                return status.ok();
            });
        if (status.ok()) continue;
        Status bad = store.verify(object);
        if (!bad.ok() && is_gone(bad)) return false;
        return Status(Code::Busy, "'" + object->key + "' cannot be read right now; try again");
    }
    return true;
}

}  // namespace holdfast
