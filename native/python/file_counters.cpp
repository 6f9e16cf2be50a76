// What holdfast._core.Agent counts of files: read at one moment, as structs of plain numbers.
#include <initializer_list>
#include <utility>

#include "python/bind.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace holdfast;

namespace {

struct FileUsage {
    std::uint64_t files = 0, bytes = 0, local = 0, remote = 0;
};

// As Python sees them; the core has its own, of atomic numbers.
namespace bound {

struct FileCounters {
    std::uint64_t hits, fills, joined, bytes, local, fetched, fetched_bytes, fetches_joined,
        failures, not_cached, changed, spilled, no_room;
};

struct TreeCounters {
    std::uint64_t hits, misses_file, misses_listing, misses_part, joined, not_cached, bytes_up,
        bytes_down, hops, hop_us, depth, failures, read_files, read_listings, read_parts,
        read_bytes;
};

}  // namespace bound

template <typename Counts>
void bind_numbers(nb::class_<Counts> bound,
                  std::initializer_list<std::pair<const char*, std::uint64_t Counts::*>> numbers) {
    for (auto [name, number] : numbers) bound.def_ro(name, number);
}

FileUsage usage_of(Agent& agent) {
    auto& reads = agent.files().counters();
    auto& opens = agent.opener().counters();
    FileUsage usage{.local = reads.local + opens.local + opens.fetched, .remote = reads.remote};
    for (Tier tier : {Tier::Memory, Tier::Disk}) {
        Usage held = agent.store().usage(tier);
        usage.files += held.files;
        usage.bytes += held.file_bytes;
    }
    return usage;
}

bound::FileCounters files_of(Agent& agent) {
    auto& reads = agent.files().counters();
    auto& fills = agent.files().fill_counters();
    auto& opens = agent.opener().counters();
    return {.hits = reads.hits,
            .fills = fills.started,
            .joined = agent.files().fills_joined(),
            .bytes = fills.bytes,
            .local = opens.local,
            .fetched = opens.fetched,
            .fetched_bytes = opens.fetched_bytes,
            .fetches_joined = agent.opener().joined(),
            .failures = opens.failures,
            .not_cached = reads.not_cached,
            .changed = reads.changed,
            .spilled = agent.store().counters().spilled,
            .no_room = reads.no_room};
}

bound::TreeCounters trees_of(Agent& agent) {
    auto& tree = agent.tree().counters();
    auto& head = agent.tree().head().counters();
    return {.hits = tree.hits,
            .misses_file = tree.files,
            .misses_listing = tree.listings,
            .misses_part = tree.parts,
            .joined = agent.tree().joined(),
            .not_cached = tree.not_cached,
            .bytes_up = tree.bytes_up,
            .bytes_down = tree.bytes_down,
            .hops = tree.hops,
            .hop_us = tree.hop_us,
            .depth = tree.depth,
            .failures = tree.failures,
            .read_files = head.files,
            .read_listings = head.listings,
            .read_parts = head.parts,
            .read_bytes = head.bytes};
}

}  // namespace

void bind_file_counters(nb::module_& module, nb::class_<Agent>& agent) {
    bind_numbers(
        nb::class_<FileUsage>(module, "FileUsage",
                              "Copies of files held, and reads of programs here and elsewhere."),
        {{"files", &FileUsage::files},
         {"bytes", &FileUsage::bytes},
         {"local", &FileUsage::local},
         {"remote", &FileUsage::remote}});
    bind_numbers(
        nb::class_<bound::FileCounters>(module, "FileCounters", "What became of files so far."),
        {{"hits", &bound::FileCounters::hits},
         {"fills", &bound::FileCounters::fills},
         {"joined", &bound::FileCounters::joined},
         {"bytes", &bound::FileCounters::bytes},
         {"local", &bound::FileCounters::local},
         {"fetched", &bound::FileCounters::fetched},
         {"fetched_bytes", &bound::FileCounters::fetched_bytes},
         {"fetches_joined", &bound::FileCounters::fetches_joined},
         {"failures", &bound::FileCounters::failures},
         {"not_cached", &bound::FileCounters::not_cached},
         {"changed", &bound::FileCounters::changed},
         {"spilled", &bound::FileCounters::spilled},
         {"no_room", &bound::FileCounters::no_room}});
    bind_numbers(
        nb::class_<bound::TreeCounters>(module, "TreeCounters",
                                        "What was asked of trees so far; `depth` may also fall."),
        {{"hits", &bound::TreeCounters::hits},
         {"misses_file", &bound::TreeCounters::misses_file},
         {"misses_listing", &bound::TreeCounters::misses_listing},
         {"misses_part", &bound::TreeCounters::misses_part},
         {"joined", &bound::TreeCounters::joined},
         {"not_cached", &bound::TreeCounters::not_cached},
         {"bytes_up", &bound::TreeCounters::bytes_up},
         {"bytes_down", &bound::TreeCounters::bytes_down},
         {"hops", &bound::TreeCounters::hops},
         {"hop_us", &bound::TreeCounters::hop_us},
         {"depth", &bound::TreeCounters::depth},
         {"failures", &bound::TreeCounters::failures},
         {"read_files", &bound::TreeCounters::read_files},
         {"read_listings", &bound::TreeCounters::read_listings},
         {"read_parts", &bound::TreeCounters::read_parts},
         {"read_bytes", &bound::TreeCounters::read_bytes}});
    agent.def("file_usage", &usage_of)
        .def("file_counters", &files_of)
        .def("tree_counters", &trees_of);
}
