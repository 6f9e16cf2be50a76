// holdfast._core.AgentClient.boxes: elements of cells, as Python's values.
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "agent/agent_client.hpp"
#include "python/bind.hpp"
#include "python/receive.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace holdfast;

namespace {

using Numbers = std::vector<std::uint32_t>;
using Wanted = std::tuple<nb::bytes, std::uint64_t, Numbers, Numbers, Numbers>;

BoxesMessage::Entry as_entry(const Wanted& wanted) {
    auto& [head, version, starts, counts, steps] = wanted;
    BoxesMessage::Entry entry{as_string(head), version, {}};
    std::size_t dimensions = starts.size();
    if (counts.size() != dimensions || steps.size() != dimensions || dimensions > kMaxDimensions)
        raise(Status(Code::BadInput, "a box has a start, a count and a step for each of at most " +
                                         std::to_string(kMaxDimensions) + " dimensions"));
    entry.region.box.dimensions = dimensions;
    for (std::size_t d = 0; d < dimensions; ++d) {
        entry.region.box.sides[d] = {starts[d], counts[d]};
        entry.region.steps[d] = steps[d];
    }
    return entry;
}

nb::object slice(const nb::object& view, std::uint64_t from, std::uint64_t size) {
    PyObject* part = PySequence_GetSlice(view.ptr(), static_cast<Py_ssize_t>(from),
                                         static_cast<Py_ssize_t>(from + size));
    if (part == nullptr) throw nb::python_error();
    return nb::steal<nb::object>(part);
}

nb::tuple as_tuple(const BoxesReply::Piece& piece, const Fd& descriptor) {
    nb::list starts, counts;
    for (std::size_t d = 0; d < piece.box.dimensions; ++d) {
        starts.append(piece.box.sides[d].start);
        counts.append(piece.box.sides[d].count);
    }
    return nb::make_tuple(nb::tuple(starts), nb::tuple(counts), descriptor.get(), piece.size);
}

nb::list boxes(AgentClient& self, const std::string& address, std::uint32_t itemsize,
               const std::vector<Wanted>& entries, bool local, std::uint64_t member,
               double deadline) {
    BoxesMessage message{member, itemsize};
    for (auto& wanted : entries) message.entries.push_back(as_entry(wanted));
    auto answer =
        unlocked([&] { return self.boxes(address, message, local, as_duration(deadline)); });
    auto& found = value_or_raise(answer);
    nb::bytes body = read_bytes(found.exchange);
    PyObject* raw = PyMemoryView_FromObject(body.ptr());
    if (raw == nullptr) throw nb::python_error();
    auto view = nb::steal<nb::object>(raw);
    nb::list values;
    std::uint64_t at = 0;
    auto descriptor = found.descriptors.begin();
    for (std::size_t i = 0; i < found.entries.size(); ++i) {
        auto& entry = found.entries[i];
        if (entry.kind == BoxesReply::Kind::Absent) {
            values.append(entry.here);
        } else if (entry.kind == BoxesReply::Kind::Bytes) {
            std::uint64_t size = *message.entries[i].region.box.volume() * itemsize;
            values.append(slice(view, at, size));
            at += size;
        } else {
            nb::list pieces;
            for (auto& piece : entry.pieces) pieces.append(as_tuple(piece, *descriptor++));
            values.append(pieces);
        }
    }
    for (Fd& passed : found.descriptors) (void)passed.release();  // they are the caller's
    return values;
}

}  // namespace

void bind_boxes(nb::class_<AgentClient>& client) {
    client.def(
        "boxes", boxes, "address"_a, "itemsize"_a, "entries"_a, nb::kw_only(), "local"_a = false,
        "member"_a = 0, "deadline"_a = 5.0,
        nb::sig("def boxes(self, address: str, itemsize: int, entries: "
                "collections.abc.Sequence[tuple[bytes, int, collections.abc.Sequence[int], "
                "collections.abc.Sequence[int], collections.abc.Sequence[int]]], *, local: bool = "
                "False, member: int = 0, deadline: float = 5.0) -> list[memoryview | "
                "list[tuple[tuple[int, ...], tuple[int, ...], int, int]] | int]"),
        "Elements of cells, put together from the pieces that an agent has.\n\n"
        "An entry is the head of the cell's keys, a version, and the starts, counts and steps of "
        "what is wanted,\nrelative to the cell. For each comes a number, if the agent has not all "
        "between the first element and the\nlast: 0, it has nothing of it; 2, something of it went "
        "bad there; else one that is the same for the same\nparts. Otherwise come its bytes in C "
        "order, verified; or, if `local`, "
        "perhaps its pieces as starts, counts, a descriptor\nand the size: the caller closes "
        "them, and of two that overlap the later counts. If one is not\nthere and another than "
        "`member` lives at the address: Unavailable.");
}
