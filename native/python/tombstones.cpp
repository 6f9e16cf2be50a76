// The part of holdfast._core.Agent that knows what was dropped (rule 9).
#include <nanobind/stl/array.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include "python/bind.hpp"
#include "python/convert.hpp"
#include "python/raise.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace holdfast;

void bind_tombstones(nb::class_<Agent>& agent) {
    agent
        .def(
            "dropped_digest", [](Agent& self) { return self.store().dropped_digest(); },
            "How many keys were dropped, and the xor of their hashes (xxh3_64).")
        .def(
            "dropped_buckets",
            [](Agent& self) {
                auto buckets = self.store().dropped_buckets();
                return std::vector<std::uint64_t>(buckets.begin(), buckets.end());
            },
            "The same xor for each of 256 buckets, by the top byte of the hash.")
        .def(
            "dropped_in",
            [](Agent& self, const std::vector<std::uint32_t>& buckets) {
                nb::list keys;
                for (auto& key : unlocked([&] { return self.store().dropped_in(buckets); }))
                    keys.append(as_bytes(key));
                return keys;
            },
            "buckets"_a,
            nb::sig("def dropped_in(self, buckets: collections.abc.Sequence[int]) -> list[bytes]"),
            "All dropped keys of some buckets.")
        .def(
            "bury",
            [](Agent& self, const std::vector<nb::bytes>& keys) {
                std::vector<std::string> names;
                for (auto& key : keys) {
                    if (key.size() == 0 || key.size() > kMaxKey)
                        raise(Status(Code::BadInput, "a key must have 1 to " +
                                                         std::to_string(kMaxKey) + " bytes, not " +
                                                         std::to_string(key.size())));
                    names.push_back(as_string(key));
                }
                return unlocked([&] { return self.store().bury(names); });
            },
            "keys"_a,
            "Keys that were dropped elsewhere: their objects go, and never come back.\n\n"
            "Gives how many were new.");
}
