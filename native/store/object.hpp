// What the store holds: an object is a key and some bytes, written once, immutable from then on.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "placement/ring.hpp"

namespace holdfast {

enum class Tier : std::uint8_t { Memory = 0, Disk = 1 };
constexpr std::size_t kTiers = 2;

// Checksums are kept for pieces of this size, so that a range can be verified without the rest.
constexpr std::uint64_t kChunk = 64 << 10;
// Smaller objects of the memory tier without a source stay in the heap and travel inline.
constexpr std::uint64_t kHeapLimit = 64 << 10;
constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kEntryBytes = 256;  // about what the index needs for an object
constexpr std::size_t kMaxKey = 4096;

struct Object {
    std::string key;
    std::uint64_t size = 0;
    std::uint32_t crc = 0;              // of all bytes
    std::vector<std::uint32_t> chunks;  // of each kChunk
    Tier tier = Tier::Memory;           // where it lies
    Tier home = Tier::Memory;           // where its writer wanted it; others keep it there
    bool has_source = false;            // it can be had again, so it may be evicted
    std::uint16_t copies = 1;  // how many the writer wanted; 0: of a broadcast, nobody's duty
    bool in_heap = false;
    std::string bytes;  // if in the heap
    std::string name;   // else: of the file in the tier's directory

    // What it takes of its tier's capacity: a file whole pages, a small object also its entry in
    // the index. A million tiny objects must not cost nothing.
    std::uint64_t footprint() const {
        if (in_heap) return size + key.size() + kEntryBytes;
        std::uint64_t pages = size / kPage + (size % kPage != 0 || size == 0);
        return pages > ~std::uint64_t{0} / kPage ? ~std::uint64_t{0} : pages * kPage;
    }
};

using ObjectPtr = std::shared_ptr<const Object>;

}  // namespace holdfast
