// The agent's side of the attribute table (preload/table.h): programs that hold descriptors of our
// copies find there what the originals are like. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "base/status.hpp"
#include "files/messages.hpp"

struct hf_table;
struct hf_entry;

namespace holdfast {

class AttributeTable {
  public:
    // Makes the file, or goes on with the one that an agent before us left.
    static Result<std::unique_ptr<AttributeTable>> open(const std::string& path);
    ~AttributeTable();

    // To be called before the descriptor is passed. A path that is too long is left out: the shim
    // asks for none.
    void record(const FileOrder& order, const Attributes& original, int descriptor);

  private:
    explicit AttributeTable(hf_table* table) : table_(table) {}
    hf_entry& place_for(std::uint64_t device, std::uint64_t inode);

    hf_table* table_;
    std::mutex mutex_;
};

}  // namespace holdfast
