// What the store holds: an object is a key and some bytes, written once, immutable from then on.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/crc32c.hpp"
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
constexpr std::size_t kMaxHeader = 1024;

// What a writer says of an object beside its bytes; nobody but its readers understands it. It stays
// in memory, so its checksum goes with it wherever it goes.
struct ObjectHeader {
    std::string bytes;
    std::uint32_t crc = 0;

    static ObjectHeader of(std::string bytes) {
        std::uint32_t crc = crc32c(0, bytes.data(), bytes.size());
        return {std::move(bytes), crc};
    }
    bool sound() const { return crc32c(0, bytes.data(), bytes.size()) == crc; }
    // The checksum of bytes, whose own is given, with this behind them.
    std::uint32_t behind(std::uint32_t before) const {
        return bytes.empty() ? before : crc32c_join(before, crc, bytes.size());
    }
};

struct Object {
    std::string key;
    std::uint64_t size = 0;
    std::uint32_t crc = 0;              // of all bytes
    std::vector<std::uint32_t> chunks;  // of each kChunk
    Tier tier = Tier::Memory;           // where it lies
    Tier home = Tier::Memory;           // where its writer wanted it; others keep it there
    bool has_source = false;            // it can be had again, so it may be evicted
    std::uint16_t copies = 1;  // how many the writer wanted; 0: it is not owned (Held::is_owned)
    std::uint16_t least = 1;   // fewer nodes than that are too few for it; 0 if it has a source
    bool in_heap = false;
    ObjectHeader header;
    std::string bytes;  // if in the heap
    std::string name;   // else: of the file in the tier's directory

    // Of its bytes and the header behind them: with the size, what tells two versions apart.
    std::uint32_t full_crc() const { return header.behind(crc); }

    // What it takes of its tier's capacity: a file whole pages, a small object also its entry in
    // the index, and either its header. A million tiny objects must not cost nothing.
    std::uint64_t footprint() const {
        if (in_heap) return size + header.bytes.size() + key.size() + kEntryBytes;
        std::uint64_t pages = size / kPage + (size % kPage != 0 || size == 0);
        std::uint64_t most = (~std::uint64_t{0} - kMaxHeader) / kPage;
        return std::min(pages, most) * kPage + header.bytes.size();
    }
};

using ObjectPtr = std::shared_ptr<const Object>;

}  // namespace holdfast
