// Which object goes when room is needed: S3-FIFO.
//
// New objects enter a small queue, a tenth of the bytes; those used again move to the main queue,
// the rest leave, and only their hashes are remembered for a while, so that one that comes back
// goes to the main queue at once. One scan through a large dataset thus passes through the small
// queue and leaves the main one alone. It knows only what may go: the store takes pinned objects
// out. Not thread-safe; no I/O.
#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>

namespace holdfast {

class Evictor {
  public:
    void insert(const std::string& key, std::uint64_t size);
    void touch(const std::string& key);  // it was used; unknown keys are ignored
    void erase(const std::string& key);

    // Chooses a victim and forgets it; nothing if there is none.
    std::optional<std::string> choose();

    std::uint64_t bytes() const { return small_bytes_ + main_bytes_; }

  private:
    struct Entry {
        std::string key;
        std::uint64_t size;
        std::uint8_t uses = 0;
        bool in_main = false;
    };
    using Queue = std::list<Entry>;  // new ones in front

    void to_front_of_main(Queue& from);
    void remember(const std::string& key);

    Queue small_, main_;
    std::uint64_t small_bytes_ = 0, main_bytes_ = 0;
    std::unordered_map<std::string, Queue::iterator> entries_;
    std::deque<std::uint64_t> ghosts_;  // hashes of those that left, in order
    std::unordered_set<std::uint64_t> ghost_set_;
};

}  // namespace holdfast
