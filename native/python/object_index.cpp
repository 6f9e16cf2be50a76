// holdfast._core.ObjectIndex: the index of the store by itself, for nodes that are simulated.
#include "store/object_index.hpp"

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <limits>

#include "python/bind.hpp"
#include "python/convert.hpp"
#include "python/raise.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace holdfast;

namespace {

constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();

nb::list as_keys(const std::vector<std::string>& keys) {
    nb::list found;
    for (auto& key : keys) found.append(as_bytes(key));
    return found;
}

struct IndexedObject {
    ObjectPtr object;
};

std::optional<IndexedObject> indexed(const ObjectPtr& object) {
    return object ? std::optional(IndexedObject{object}) : std::nullopt;
}

// Everything that looks at the survey needs it whole.
ObjectIndex& counted(ObjectIndex& index) {
    index.count(kAll);
    return index;
}

}  // namespace

void bind_object_index(nb::module_& module) {
    module.def(
        "tombstone",
        [](const nb::bytes& key) {
            return as_bytes(Notice{Topic::Tombstone, as_string(key)}.encode());
        },
        "key"_a, "The notice that a key was dropped.");
    module.def(
        "watermark",
        [](const nb::bytes& prefix, std::uint64_t version) {
            Watermark mark{as_string(prefix), version};
            raise_unless_ok(mark.check());
            return as_bytes(Notice{Topic::Watermark, mark.encode()}.encode());
        },
        "prefix"_a, "version"_a, "The notice that all versions below one were dropped.");

    nb::class_<IndexedObject>(module, "IndexedObject", "An object in an ObjectIndex. Immutable.")
        .def_prop_ro("key", [](const IndexedObject& self) { return as_bytes(self.object->key); })
        .def_prop_ro("held", [](const IndexedObject& self) { return Held::of(*self.object); });

    nb::class_<ObjectIndex>(module, "ObjectIndex",
                            "What one node knows of objects, without their bytes: the index of "
                            "the store, for nodes\nthat are simulated.")
        .def(nb::init<>())
        .def(
            "reserve",
            [](ObjectIndex& self, const nb::bytes& key, std::uint64_t size) {
                auto existing = self.reserve(as_string(key), size);
                return indexed(value_or_raise(existing));
            },
            "key"_a, "size"_a,
            "None: the key is the caller's, to publish or to abandon. Otherwise what is stored\n"
            "there, to be compared. Raises KeyExists or Busy.")
        .def(
            "publish",
            [](ObjectIndex& self, const nb::bytes& key, std::uint64_t size, std::uint32_t crc,
               Tier tier, std::uint16_t copies, bool has_source, std::uint16_t least) {
                auto object = std::make_shared<Object>();
                object->key = as_string(key);
                object->size = size;
                object->crc = crc;
                object->tier = object->home = tier;
                object->copies = copies;
                object->has_source = has_source;
                object->least = least;
                raise_unless_ok(self.publish(object));
                return IndexedObject{object};
            },
            "key"_a, "size"_a, "crc"_a, nb::kw_only(), "tier"_a, "copies"_a, "has_source"_a,
            "least"_a = 1,
            "Store an object under a key that was reserved. Raises KeyExists if it was dropped\n"
            "meanwhile; it stays reserved then.")
        .def(
            "abandon",
            [](ObjectIndex& self, const nb::bytes& key) { self.abandon(as_string(key)); }, "key"_a,
            "Give a key back that was reserved.")
        .def(
            "raise_copies",
            [](ObjectIndex& self, const IndexedObject& object, std::uint16_t copies,
               std::uint16_t least) {
                return indexed(self.raise_copies(object.object, copies, least));
            },
            "object"_a, "copies"_a, "least"_a,
            "The object, with at least `copies` wanted; None if it is no longer here.")
        .def(
            "find",
            [](const ObjectIndex& self, const nb::bytes& key) {
                return indexed(self.find(as_string(key)));
            },
            "key"_a, "The object under a key.")
        .def(
            "absent",
            [](const ObjectIndex& self, const nb::bytes& key) {
                raise(self.absent(as_string(key)));
            },
            "key"_a, nb::sig("def absent(self, key: bytes) -> typing.NoReturn"),
            "Raise why it is not here: Dropped, Damaged or NotFound.")
        .def(
            "keys",
            [](const ObjectIndex& self, const nb::bytes& prefix, std::size_t limit) {
                nb::list found;
                for (auto& object : self.list(as_string(prefix), "", limit))
                    found.append(as_bytes(object->key));
                return found;
            },
            "prefix"_a, "limit"_a,
            nb::sig("def keys(self, prefix: bytes, limit: int) -> list[bytes]"),
            "Keys of objects that begin so, in order.")
        .def(
            "evict",
            [](ObjectIndex& self, const IndexedObject& object) {
                return self.evict(object.object);
            },
            "object"_a, "Exactly that object leaves; what has a source still counts.")
        .def(
            "lose",
            [](ObjectIndex& self, const IndexedObject& object) { return self.lose(object.object); },
            "object"_a, "Exactly that object went bad.")
        .def(
            "trim",
            [](ObjectIndex& self, const nb::bytes& key, std::uint64_t size, std::uint32_t crc) {
                return self.trim(as_string(key), size, crc).done;
            },
            "key"_a, "size"_a, "crc"_a, "Remove exactly that object if we do not own it.")
        .def(
            "move_aside",
            [](ObjectIndex& self, const nb::bytes& key, std::uint64_t size, std::uint32_t crc,
               const nb::bytes& aside) {
                auto moved = self.move_aside(as_string(key), size, crc, as_string(aside));
                return std::pair(indexed(moved.before), indexed(moved.after));
            },
            "key"_a, "size"_a, "crc"_a, "aside"_a,
            "Keep exactly that object under another key: what it was, and what it is now; None if\n"
            "nothing was done, or if it was given up.")
        .def(
            "learn",
            [](ObjectIndex& self, const nb::bytes& encoded) {
                auto notice = Notice::decode(as_string(encoded));
                if (!notice) raise(Status(Code::BadInput, "that is no notice"));
                bool is_new = self.learn(*notice);
                while (!self.sweep(kAll)) continue;
                std::vector<IndexedObject> gone;
                for (auto& object : self.take_gone()) gone.push_back({object});
                return std::pair(is_new, gone);
            },
            "notice"_a, "Whether it is new, and what it dropped.")
        .def(
            "notice_digest",
            [](const ObjectIndex& self) {
                return std::pair(self.notices().count(), self.notices().digest());
            },
            "How many notices there are, and the xor of their hashes (xxh3_64).")
        .def(
            "notice_buckets",
            [](const ObjectIndex& self) {
                auto& buckets = self.notices().buckets();
                return std::vector<std::uint64_t>(buckets.begin(), buckets.end());
            },
            "The same xor for each of 256 buckets, by the top byte of the hash.")
        .def(
            "notices_in",
            [](const ObjectIndex& self, const std::vector<std::uint32_t>& buckets) {
                return as_keys(self.notices().in(buckets));
            },
            "buckets"_a,
            nb::sig("def notices_in(self, buckets: collections.abc.Sequence[int]) -> list[bytes]"),
            "All notices of some buckets.")
        .def(
            "place",
            [](ObjectIndex& self, const SharedPlacement& shared, std::uint64_t number) {
                self.place(shared.placement, number);
            },
            "placement"_a, "number"_a, "Where objects belong from now on, and which member we are.")
        .def(
            "survey", [](ObjectIndex& self) { return counted(self).survey(); },
            "For each co-owner: how many objects we hold that both of us own, and their digest.")
        .def(
            "short", [](ObjectIndex& self) { return counted(self).short_of_nodes(); },
            "How many objects we own first for which there are too few nodes.")
        .def(
            "buckets_with",
            [](ObjectIndex& self, std::uint64_t peer) {
                auto buckets = counted(self).buckets_with(peer);
                return std::vector<std::uint64_t>(buckets.begin(), buckets.end());
            },
            "peer"_a, "The digest for one co-owner in 64 buckets, by the top 6 bits of xxh3_64.")
        .def(
            "held_with",
            [](const ObjectIndex& self, std::uint64_t peer,
               const std::vector<std::uint32_t>& buckets) {
                HeldList list(peer, buckets);
                self.fill(list, kAll);
                return list.take();
            },
            "peer"_a, "buckets"_a, "The objects in some buckets of one co-owner.")
        .def(
            "strays",
            [](ObjectIndex& self, std::size_t limit, const nb::bytes& after) {
                return counted(self).strays(limit, as_string(after));
            },
            "limit"_a, "after"_a, "Objects that we hold and do not own, in the order of keys.")
        .def(
            "held",
            [](const ObjectIndex& self, const nb::bytes& key) { return self.held(as_string(key)); },
            "key"_a, "What we hold under that key, or have evicted and still count.")
        .def(
            "let_go",
            [](ObjectIndex& self, const nb::bytes& key, std::uint64_t size, std::uint32_t crc,
               Tier tier, std::uint16_t copies) {
                self.let_go({as_string(key), size, crc, tier, copies, true});
            },
            "key"_a, "size"_a, "crc"_a, "tier"_a, "copies"_a,
            "An object that has a source finds no room here: it counts as evicted.")
        .def(
            "hold_through",
            [](ObjectIndex& self, const nb::bytes& key, std::uint64_t size, std::uint32_t crc,
               Tier tier, std::uint16_t copies, const nb::bytes& object, std::uint16_t least) {
                return self.hold_through({as_string(key), size, crc, tier, copies, false, least},
                                         as_string(object));
            },
            "key"_a, "size"_a, "crc"_a, nb::kw_only(), "tier"_a, "copies"_a, "object"_a,
            "least"_a = 1,
            "A key that is not here counts as if it were, as long as that object is here.")
        .def(
            "raise_through",
            [](ObjectIndex& self, const nb::bytes& key, std::uint64_t size, std::uint32_t crc,
               std::uint16_t copies, std::uint16_t least) {
                self.raise_through({as_string(key), size, crc}, copies, least);
            },
            "key"_a, "size"_a, "crc"_a, "copies"_a, "least"_a,
            "Want more copies of exactly that, if it is held through another object.")
        .def(
            "missed", [](ObjectIndex& self, const nb::bytes& key) { self.missed(as_string(key)); },
            "key"_a, "Somebody asked for an object in vain: if it was evicted, it counts no more.");
}
