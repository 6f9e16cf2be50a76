#include "placement/placement.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>
#include <set>

#include "base/hash.hpp"
#include "base/hmac.hpp"
#include "files/messages.hpp"
#include "placement/ring.hpp"
#include "placement/trees.hpp"
#include "placement/windows.hpp"
#include "python/bind.hpp"
#include "python/raise.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using holdfast::Placement;
using holdfast::Ring;
using holdfast::SlotTable;
using holdfast::Trees;
using holdfast::WindowTable;

namespace {

std::string_view as_view(const nb::bytes& data) {
    return {data.c_str(), data.size()};
}

[[noreturn]] void refuse(const std::string& why) {
    raise(holdfast::Status(holdfast::Code::BadInput, why));
}

SlotTable slot_table(std::string prefix, std::vector<std::vector<std::uint64_t>> slots,
                     std::size_t may_leave_out) {
    constexpr std::string_view files = holdfast::kFilePrefix;
    if (prefix.starts_with(files) || files.starts_with(prefix))
        refuse("a key space needs a prefix that no file begins with, not '" + prefix + "'");
    if (prefix.find('\0') != prefix.npos)
        refuse("the prefix of a key space has no zero byte: those of one key lie together");
    for (auto& slot : slots)
        if (std::set<std::uint64_t>(slot.begin(), slot.end()).size() != slot.size())
            refuse("a member is named twice in a slot of '" + prefix + "'");
    return {std::move(prefix), std::move(slots), may_leave_out};
}

// Of a roster: its id, its nodes and its role.
using RosterTuple = std::tuple<std::string, std::vector<std::string>, std::string>;
// Of a member: its number, node, host, rack and role.
using MemberTuple = std::tuple<std::uint64_t, std::string, std::string, std::string, std::string>;

WindowTable window_table(std::vector<RosterTuple> rosters, std::vector<MemberTuple> members) {
    std::vector<holdfast::Roster> known;
    for (auto& [id, nodes, role] : rosters)
        known.push_back({std::move(id), std::move(nodes), std::move(role)});
    std::vector<holdfast::WindowMember> live;
    for (auto& [number, node, host, rack, role] : members)
        live.push_back(
            {number, std::move(node), std::move(host), std::move(rack), std::move(role)});
    return {std::move(known), std::move(live)};
}

struct TreesOfRing {
    Ring ring;
    Trees trees;
    std::uint32_t degree;
};

}  // namespace

void bind_placement(nb::module_& module) {
    module.def(
        "xxh3_64",
        [](const nb::bytes& data, std::uint64_t seed) {
            return holdfast::xxh3_64(as_view(data), seed);
        },
        "data"_a, "seed"_a = 0, "XXH3 with 64 bits.");
    module.def(
        "hmac_sha256",
        [](const nb::bytes& key, const nb::bytes& data) {
            auto digest = holdfast::hmac_sha256(as_view(key), as_view(data));
            value_or_raise(digest);
            return nb::bytes(digest->data(), digest->size());
        },
        "key"_a, "data"_a, "What only who knows the key can compute, and does not tell it.");

    nb::class_<Ring>(module, "Ring", "holdfast.placement.ring.Ring at full speed.")
        .def(
            "__init__",
            [](Ring* self, std::vector<std::string> nodes, std::uint32_t virtual_nodes) {
                if (std::set<std::string>(nodes.begin(), nodes.end()).size() != nodes.size())
                    refuse("a node is named twice on the ring; names must differ");
                if (virtual_nodes < 1) refuse("0 virtual nodes; a node needs at least 1");
                nb::gil_scoped_release release;
                new (self) Ring(std::move(nodes), virtual_nodes);
            },
            "nodes"_a, "virtual_nodes"_a = 100)
        .def(
            "shares", [](const Ring& self) { return self.shares(); },
            "The share of all keys that each node owns first, in the order of `nodes`.")
        .def_prop_ro(
            "nodes", [](const Ring& self) { return self.nodes(); }, "Sorted names.")
        .def(
            "owners",
            [](const Ring& self, const nb::bytes& key, std::size_t count) {
                nb::list names;
                for (std::uint32_t index : self.owners(as_view(key), count))
                    names.append(nb::cast(self.nodes()[index]));
                return names;
            },
            "key"_a, "count"_a = 1,
            nb::sig("def owners(self, key: bytes, count: int = 1) -> list[str]"),
            "The first `count` distinct nodes for `key`, fewer if there are fewer.");

    nb::class_<SlotTable>(module, "SlotTable",
                          "Who owns the keys that begin with `prefix`: each slot has the numbers "
                          "of its members, in\norder. A put may leave out `may_leave_out` owners "
                          "that failed.")
        .def(
            "__init__",
            [](SlotTable* self, const nb::bytes& prefix,
               std::vector<std::vector<std::uint64_t>> slots, std::size_t may_leave_out) {
                new (self) SlotTable(
                    slot_table({prefix.c_str(), prefix.size()}, std::move(slots), may_leave_out));
            },
            "prefix"_a, "slots"_a, "may_leave_out"_a = 0);

    nb::class_<WindowTable>(module, "WindowTable",
                            "holdfast.placement.windows.WindowTable at full speed. A roster is its "
                            "id, its nodes and its role,\na member that lives is its number, node, "
                            "host, rack and role.")
        .def(
            "__init__",
            [](WindowTable* self, std::vector<RosterTuple> rosters,
               std::vector<MemberTuple> members) {
                new (self) WindowTable(window_table(std::move(rosters), std::move(members)));
            },
            "rosters"_a = std::vector<RosterTuple>(), "members"_a = std::vector<MemberTuple>(),
            nb::sig("def __init__(self, rosters: collections.abc.Sequence[tuple[str, "
                    "collections.abc.Sequence[str], str]] = (), members: "
                    "collections.abc.Sequence[tuple[int, str, str, str, str]] = ()) -> None"));

    nb::class_<SharedPlacement>(
        module, "Placement",
        "Where objects belong in one view, for its members. "
        "Immutable.\n\n"
        "numbers[i] is the member on ring.nodes[i], addresses[i] is where it "
        "lives and racks[i]\nits rack; without racks all share one. `with_lost` "
        "is the ring with the nodes on it whose\nmembers were lost, if any. `tables` are of the "
        "key spaces; the longest prefix of a key counts,\n`windows` have the keys that begin with "
        "@space/ but for @space/names/, and the ring has all\nothers.")
        .def(
            "__init__",
            [](SharedPlacement* self, const Ring& ring, std::vector<std::uint64_t> numbers,
               std::vector<std::string> addresses, std::uint64_t identity,
               std::vector<std::string> racks, std::optional<Ring> with_lost,
               std::vector<SlotTable> tables, std::optional<WindowTable> windows) {
                std::set<std::string> prefixes;
                for (auto& table : tables)
                    if (!prefixes.insert(table.prefix).second)
                        refuse("two key spaces have the prefix '" + table.prefix + "'");
                if (racks.empty()) racks.resize(numbers.size());
                for (std::size_t count : {numbers.size(), addresses.size(), racks.size()})
                    if (count != ring.nodes().size())
                        refuse(std::to_string(count) + " members for the " +
                               std::to_string(ring.nodes().size()) +
                               " nodes of the ring; give one for each");
                new (self) SharedPlacement{
                    Placement::make(ring, std::move(numbers), std::move(addresses), identity,
                                    std::move(racks), std::move(with_lost), std::move(tables),
                                    std::move(windows).value_or(WindowTable()))};
            },
            "ring"_a, "numbers"_a, "addresses"_a, nb::kw_only(), "identity"_a,
            "racks"_a = std::vector<std::string>(), "with_lost"_a = nb::none(),
            "tables"_a = std::vector<SlotTable>(), "windows"_a = nb::none(),
            nb::sig("def __init__(self, ring: Ring, numbers: collections.abc.Sequence[int], "
                    "addresses: collections.abc.Sequence[str], *, identity: int, racks: "
                    "collections.abc.Sequence[str] = (), with_lost: Ring | None = None, tables: "
                    "collections.abc.Sequence[SlotTable] = (), windows: WindowTable | None = "
                    "None) -> None"))
        .def_prop_ro(
            "ring", [](const SharedPlacement& self) { return &self.placement->ring; },
            nb::rv_policy::reference_internal, "Of those who live.")
        .def(
            "owners",
            [](const SharedPlacement& self, const nb::bytes& key, std::size_t copies,
               const std::vector<std::uint64_t>& without) {
                const Placement& placement = *self.placement;
                // A window has no more of them.
                if (copies <= holdfast::kMaxCopies || WindowTable::has(as_view(key))) {
                    auto owners = placement.owners(as_view(key), copies, without);
                    return std::vector<std::uint64_t>(owners.begin(), owners.end());
                }
                // Nobody stores so many; who looks for an object asks all in this order.
                std::vector<std::uint64_t> found;
                if (const SlotTable* table = placement.table(as_view(key))) {
                    found.resize(std::min(copies, table->members(as_view(key)).size()));
                    found.resize(table->owners(as_view(key), without, found));
                    return found;
                }
                for (auto node : placement.ring.owners(as_view(key), copies))
                    found.push_back(placement.numbers[node]);
                return found;
            },
            "key"_a, "copies"_a, "without"_a = std::vector<std::uint64_t>(),
            nb::sig("def owners(self, key: bytes, copies: int, without: "
                    "collections.abc.Sequence[int] = ()) -> list[int]"),
            "The numbers of the owners of `key`, fewer if there are fewer. In a key space or a\n"
            "window those `without` own nothing.");

    nb::class_<TreesOfRing>(module, "Trees", "holdfast.placement.trees.Trees at full speed.")
        .def(
            "__init__",
            [](TreesOfRing* self, const Ring& ring, const std::vector<std::string>& racks,
               std::uint32_t degree) {
                if (racks.size() != ring.nodes().size())
                    refuse(std::to_string(racks.size()) + " racks for " +
                           std::to_string(ring.nodes().size()) + " nodes; give one for each node");
                if (racks.empty()) refuse("a tree needs at least one node");
                if (degree < 2)
                    refuse("a tree cannot have the degree " + std::to_string(degree) +
                           "; use at least 2");
                new (self) TreesOfRing{ring, Trees(racks), degree};
            },
            "ring"_a, "racks"_a, "degree"_a)
        .def(
            "ancestors",
            [](const TreesOfRing& self, const nb::bytes& key, const std::string& node) {
                auto& nodes = self.ring.nodes();
                auto at = std::lower_bound(nodes.begin(), nodes.end(), node);
                bool there = at != nodes.end() && *at == node;
                auto index = static_cast<std::uint32_t>(there ? at - nodes.begin()
                                                              : nodes.end() - nodes.begin());
                nb::list names;
                for (auto above : self.trees.ancestors(self.ring, as_view(key), index, self.degree))
                    names.append(nb::cast(nodes[above]));
                return names;
            },
            "key"_a, "node"_a, nb::sig("def ancestors(self, key: bytes, node: str) -> list[str]"),
            "Who stands above `node`: its parent first, the head last.");
}
