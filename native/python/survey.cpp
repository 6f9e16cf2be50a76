// The part of holdfast._core.Agent that compares what agents hold (rule 8). The GIL is released:
// after a change of placement everything is counted anew.
#include "store/survey.hpp"

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "python/bind.hpp"
#include "python/convert.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace holdfast;

void bind_survey(nb::module_& module, nb::class_<Agent>& agent) {
    nb::class_<Held>(module, "Held", "An object as agents compare it.")
        .def_prop_ro("key", [](const Held& self) { return as_bytes(self.key); })
        .def_ro("size", &Held::size)
        .def_ro("crc32c", &Held::crc)
        .def_ro("tier", &Held::tier)
        .def_ro("copies", &Held::copies)
        .def_ro("has_source", &Held::has_source)
        .def_ro("least", &Held::least);

    agent
        .def(
            "survey", [](Agent& self) { return unlocked([&] { return self.store().survey(); }); },
            "For each co-owner: how many objects we hold that both of us own, and their digest.")
        .def(
            "short",
            [](Agent& self) { return unlocked([&] { return self.store().short_of_nodes(); }); },
            "How many objects we own first for which there are too few nodes.")
        .def(
            "buckets_with",
            [](Agent& self, std::uint64_t peer) {
                auto buckets = unlocked([&] { return self.store().buckets_with(peer); });
                return std::vector<std::uint64_t>(buckets.begin(), buckets.end());
            },
            "peer"_a, "The digest for one co-owner in 64 buckets, by the top 6 bits of xxh3_64.")
        .def(
            "held_with",
            [](Agent& self, std::uint64_t peer, const std::vector<std::uint32_t>& buckets) {
                return unlocked([&] { return self.store().held_with(peer, buckets); });
            },
            "peer"_a, "buckets"_a,
            "The objects in some buckets of one co-owner.\n\n"
            "Whole buckets in their order, one at least, as many as have 16384 objects together.")
        .def(
            "strays",
            [](Agent& self, std::size_t limit, const nb::bytes& after) {
                std::string key = as_string(after);
                return unlocked([&] { return self.store().strays(limit, key); });
            },
            "limit"_a, "after"_a, "Objects that we hold and do not own, in the order of keys.")
        .def(
            "held",
            [](Agent& self, const nb::bytes& key) { return self.store().held(as_string(key)); },
            "key"_a, "What we hold under that key.")
        .def(
            "trim",
            [](Agent& self, const nb::bytes& key, std::uint64_t size, std::uint32_t crc) {
                std::string name = as_string(key);
                return unlocked([&] { return self.store().trim(name, size, crc); });
            },
            "key"_a, "size"_a, "crc"_a,
            "Remove exactly that object if we do not own it and nobody has pinned it.")
        .def(
            "raise_copies",
            [](Agent& self, const nb::bytes& key, std::uint64_t size, std::uint32_t crc,
               std::uint16_t copies, std::uint16_t least) {
                ObjectPtr object = self.store().peek(as_string(key));
                if (object && object->size == size && object->full_crc() == crc)
                    self.store().raise_copies(object, copies, least);
            },
            "key"_a, "size"_a, "crc"_a, "copies"_a, "least"_a = 0,
            "Want at least `copies` of exactly that object, if it is here.")
        .def(
            "has_room",
            [](Agent& self, Tier tier, std::uint64_t size) {
                return unlocked([&] { return self.store().has_room(tier, size); });
            },
            "tier"_a, "size"_a, "Whether an object of that size would find room at this moment.")
        .def(
            "move_aside",
            [](Agent& self, const nb::bytes& key, std::uint64_t size, std::uint32_t crc,
               const nb::bytes& aside) {
                std::string name = as_string(key), other = as_string(aside);
                return unlocked([&] { return self.store().move_aside(name, size, crc, other); });
            },
            "key"_a, "size"_a, "crc"_a, "aside"_a,
            "Keep exactly that object under another key: another version of it won its own.")
        .def(
            "keys",
            [](Agent& self, const nb::bytes& prefix, std::size_t limit) {
                std::string begin = as_string(prefix);
                auto found = unlocked([&] { return self.store().list(begin, "", limit); });
                nb::list keys;
                for (auto& object : found) keys.append(as_bytes(object->key));
                return keys;
            },
            "prefix"_a, "limit"_a,
            nb::sig("def keys(self, prefix: bytes, limit: int) -> list[bytes]"),
            "Keys of objects here that begin so, in order.");
}
