#include "store/evictor.hpp"

#include <algorithm>

#include "base/hash.hpp"

namespace holdfast {
namespace {

constexpr std::uint8_t kMostUses = 3;
constexpr std::uint64_t kSmallShare = 10;  // one part in ten

}  // namespace

void Evictor::insert(const std::string& key, std::uint64_t size) {
    erase(key);
    bool returns = ghost_set_.erase(xxh3_64(key)) > 0;
    Queue& queue = returns ? main_ : small_;
    queue.push_front({key, size, 0, returns});
    (returns ? main_bytes_ : small_bytes_) += size;
    entries_[key] = queue.begin();
}

void Evictor::touch(const std::string& key) {
    auto found = entries_.find(key);
    if (found == entries_.end()) return;
    auto& uses = found->second->uses;
    uses = std::min<std::uint8_t>(static_cast<std::uint8_t>(uses + 1), kMostUses);
}

void Evictor::erase(const std::string& key) {
    auto found = entries_.find(key);
    if (found == entries_.end()) return;
    auto entry = found->second;
    (entry->in_main ? main_bytes_ : small_bytes_) -= entry->size;
    (entry->in_main ? main_ : small_).erase(entry);
    entries_.erase(found);
}

void Evictor::to_front_of_main(Queue& from) {
    auto entry = std::prev(from.end());
    if (!entry->in_main) {
        small_bytes_ -= entry->size;
        main_bytes_ += entry->size;
        entry->in_main = true;
    }
    main_.splice(main_.begin(), from, entry);
}

void Evictor::remember(const std::string& key) {
    std::uint64_t hash = xxh3_64(key);
    if (ghost_set_.insert(hash).second) ghosts_.push_back(hash);
    while (ghosts_.size() > std::max<std::size_t>(entries_.size(), 64)) {
        ghost_set_.erase(ghosts_.front());
        ghosts_.pop_front();
    }
}

std::optional<std::string> Evictor::choose() {
    // Ends: what it passes over moves to the main queue for good, or loses a use.
    while (!entries_.empty()) {
        bool from_small = main_.empty() || (!small_.empty() && small_bytes_ * kSmallShare >=
                                                                   small_bytes_ + main_bytes_);
        Queue& queue = from_small ? small_ : main_;
        Entry& oldest = queue.back();
        if (from_small ? oldest.uses > 1 : oldest.uses > 0) {
            if (!from_small) --oldest.uses;
            to_front_of_main(queue);
            continue;
        }
        std::string key = oldest.key;
        if (from_small) remember(key);
        erase(key);
        return key;
    }
    return std::nullopt;
}

}  // namespace holdfast
