// A point has one value: what a new piece has in common with others must be the same bytes.
#include <algorithm>
#include <cstring>

#include "store/object_reader.hpp"
#include "store/piece.hpp"
#include "store/store.hpp"

namespace holdfast {
namespace {

Status other_values(const PieceKey& piece, const Box& shared) {
    return Status(Code::KeyExists, "version " + std::to_string(piece.version) + " of '" +
                                       std::string(piece.variable()) +
                                       "' has other contents in the box " +
                                       piece.cell.text(shared) +
                                       "; a point is written once, choose another version");
}

}  // namespace

// Nobody adds to what it overlaps while it is on its way (ObjectIndex::reserve), so that once it
// has been compared it may be stored.
Status Writer::compare_overlapped() {
    while (!overlapped_.empty()) {
        if (Status status = compare_with(overlapped_.back()); !status.ok()) return status;
        overlapped_.pop_back();
    }
    return {};
}

Status Writer::compare_with(const ObjectPtr& other) {
    auto piece = PieceKey::parse(object_->key);
    auto box = piece.ok() ? piece->box_of(other->key) : std::nullopt;
    if (!box) return {};  // it was looked for by that
    // It is not there any more: gone for good it says nothing of these points; else we are asked
    // again, and look again.
    auto gone = [&](Status status) {
        if (status.code() == Code::Dropped || status.code() == Code::Damaged) return Status();
        return Status(Code::Busy, "what '" + std::string(piece->variable()) + "' has in the box " +
                                      piece->cell.text(*box) +
                                      " cannot be compared right now; try again");
    };
    Fd own, file;
    if (!object_->in_heap) {
        auto opened = reopen();
        if (!opened.ok()) return opened.take_status();
        own = std::move(*opened);
    }
    if (!other->in_heap) {
        auto opened = store_->open_file(other);
        if (!opened.ok()) return gone(opened.take_status());
        file = std::move(*opened);
    }
    std::uint64_t item = object_->size / *piece->box.volume();
    std::uint64_t volume = box->volume().value_or(0);
    if (volume == 0 || other->size % volume != 0 || other->size / volume != item)
        return other_values(*piece, *intersect(piece->box, *box));
    ObjectReader ours(*object_, std::move(own), false), theirs(*other, std::move(file), true);
    bool same = true, is_bad = false;
    Status status;
    auto row = [&](std::uint64_t from, std::uint64_t, std::uint64_t to, std::uint64_t count) {
        for (std::uint64_t at = 0, size = count * item; at < size;) {
            auto there = theirs.peek(from * item + at, size - at);
            is_bad = !there.ok();
            if (is_bad) return false;
            auto here = ours.peek(to * item + at, there->size());
            if (!here.ok()) {
                status = here.take_status();
                return false;
            }
            same = std::memcmp(here->data(), there->data(), here->size()) == 0;
            if (!same) return false;
            at += here->size();
        }
        return true;
    };
    Walk(Region::all_of(piece->box), *box).rows(row);
    if (is_bad) return gone(store_->verify(other));
    if (!same) return other_values(*piece, *intersect(piece->box, *box));
    return status;
}

}  // namespace holdfast
