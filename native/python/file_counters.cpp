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

struct FileCounts {
    std::uint64_t hits, fills, joined, bytes, local, fetched, fetched_bytes, fetches_joined,
        failures, not_cached, changed, spilled, no_room;
};

struct TreeCounts {
    std::uint64_t hits, misses_file, misses_listing, misses_part, joined, not_cached, bytes_up,
        bytes_down, hops, hop_us, depth, failures, read_files, read_listings, read_parts,
        read_bytes;
};

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

FileCounts files_of(Agent& agent) {
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

TreeCounts trees_of(Agent& agent) {
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
    bind_numbers(nb::class_<FileCounts>(module, "FileCounters", "What became of files so far."),
                 {{"hits", &FileCounts::hits},
                  {"fills", &FileCounts::fills},
                  {"joined", &FileCounts::joined},
                  {"bytes", &FileCounts::bytes},
                  {"local", &FileCounts::local},
                  {"fetched", &FileCounts::fetched},
                  {"fetched_bytes", &FileCounts::fetched_bytes},
                  {"fetches_joined", &FileCounts::fetches_joined},
                  {"failures", &FileCounts::failures},
                  {"not_cached", &FileCounts::not_cached},
                  {"changed", &FileCounts::changed},
                  {"spilled", &FileCounts::spilled},
                  {"no_room", &FileCounts::no_room}});
    bind_numbers(nb::class_<TreeCounts>(module, "TreeCounters",
                                        "What was asked of trees so far; `depth` may also fall."),
                 {{"hits", &TreeCounts::hits},
                  {"misses_file", &TreeCounts::misses_file},
                  {"misses_listing", &TreeCounts::misses_listing},
                  {"misses_part", &TreeCounts::misses_part},
                  {"joined", &TreeCounts::joined},
                  {"not_cached", &TreeCounts::not_cached},
                  {"bytes_up", &TreeCounts::bytes_up},
                  {"bytes_down", &TreeCounts::bytes_down},
                  {"hops", &TreeCounts::hops},
                  {"hop_us", &TreeCounts::hop_us},
                  {"depth", &TreeCounts::depth},
                  {"failures", &TreeCounts::failures},
                  {"read_files", &TreeCounts::read_files},
                  {"read_listings", &TreeCounts::read_listings},
                  {"read_parts", &TreeCounts::read_parts},
                  {"read_bytes", &TreeCounts::read_bytes}});
    agent.def("file_usage", &usage_of)
        .def("file_counters", &files_of)
        .def("tree_counters", &trees_of);
}
