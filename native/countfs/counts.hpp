// What was asked of one mount, path by path.
//
// Thread-safe; nothing here blocks for longer than a look into a table. A path is relative to the
// storage's directory, which itself is "".
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>

namespace holdfast::storage {

enum class Event : std::uint8_t { Open, Read, Byte, Lookup, Getattr, Listing };
constexpr std::size_t kEvents = 6;

class Counts {
  public:
    void add(const std::string& path, Event event, std::uint64_t count = 1) {
        std::lock_guard lock(mutex_);
        by_path_[path][static_cast<std::size_t>(event)] += count;
    }

    void reset() {
        std::lock_guard lock(mutex_);
        by_path_.clear();
    }

    // Appends one record per path: `mount`, the path and each count, all of them ended by a zero,
    // which no path contains.
    void write(std::size_t mount, std::string& out) const {
        std::lock_guard lock(mutex_);
        for (const auto& [path, counts] : by_path_) {
            out.append(std::to_string(mount)).push_back('\0');
            out.append(path).push_back('\0');
            for (std::uint64_t count : counts) out.append(std::to_string(count)).push_back('\0');
        }
    }

  private:
    mutable std::mutex mutex_;
    std::unordered_map<std::string, std::array<std::uint64_t, kEvents>> by_path_;
};

}  // namespace holdfast::storage
