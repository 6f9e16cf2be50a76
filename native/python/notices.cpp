// The part of holdfast._core.Agent that knows what every member is to learn (rule 9).
#include <nanobind/stl/array.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include "python/bind.hpp"
#include "python/convert.hpp"
#include "python/raise.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace holdfast;

void bind_notices(nb::class_<Agent>& agent) {
    agent
        .def(
            "notice_digest", [](Agent& self) { return self.store().notice_digest(); },
            "How many notices there are, and the xor of their hashes (xxh3_64).")
        .def(
            "notice_buckets",
            [](Agent& self) {
                auto buckets = self.store().notice_buckets();
                return std::vector<std::uint64_t>(buckets.begin(), buckets.end());
            },
            "The same xor for each of 256 buckets, by the top byte of the hash.")
        .def(
            "notices_in",
            [](Agent& self, const std::vector<std::uint32_t>& buckets) {
                nb::list notices;
                for (auto& one : unlocked([&] { return self.store().notices_in(buckets); }))
                    notices.append(as_bytes(one));
                return notices;
            },
            "buckets"_a,
            nb::sig("def notices_in(self, buckets: collections.abc.Sequence[int]) -> list[bytes]"),
            "All notices of some buckets.")
        .def(
            "learn",
            [](Agent& self, const std::vector<nb::bytes>& notices) {
                std::vector<Notice> known;
                for (auto& one : notices)
                    if (auto notice = Notice::decode(as_string(one))) known.push_back(*notice);
                return unlocked([&] { return self.store().learn(known); });
            },
            "notices"_a,
            "Notices of other members: what was dropped goes, and never comes back.\n\n"
            "Gives how many were new. What is none is ignored.");
}
