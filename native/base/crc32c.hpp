// CRC-32C (Castagnoli), the checksum of every byte that enters a node or crosses a network.
// Thread-safe, never blocks. Runs at about memory speed where the processor has the instruction.
#pragma once

#include <cstddef>
#include <cstdint>

namespace holdfast {

// The checksum of `size` more bytes after bytes whose checksum is `crc` (0 for none).
std::uint32_t crc32c(std::uint32_t crc, const void* data, std::size_t size);

// The checksum of two runs of bytes one after the other, from the checksum of each.
std::uint32_t crc32c_join(std::uint32_t first, std::uint32_t second, std::uint64_t second_size);

}  // namespace holdfast
