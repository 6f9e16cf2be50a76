#include "files/catalog.hpp"

namespace holdfast {

std::optional<Catalog::Known> Catalog::find(const std::string& path) const {
    Lock lock(mutex_);
    auto entry = entries_.find(path);
    if (entry == entries_.end() || entry->second.learnt < distrusted_) return std::nullopt;
    auto& [known, learnt] = entry->second;
    if (!known.attributes.direct && learnt < links_distrusted_) return std::nullopt;
    return known;
}

std::uint64_t Catalog::epoch() const {
    Lock lock(mutex_);
    return epoch_;
}

void Catalog::learn(const std::string& path, const Attributes& attributes, std::uint64_t epoch,
                    BootTime looked, std::uint32_t listing_crc) {
    Lock lock(mutex_);
    if (epoch != epoch_) return;
    auto [entry, added] =
        entries_.try_emplace(path, Entry{{attributes, looked, listing_crc}, epoch_});
    if (added) return make_room();
    if (watch_ && entry->second.known.attributes.identity() != attributes.identity()) watch_();
    entry->second = {{attributes, looked, listing_crc}, epoch_};
}

void Catalog::make_room() {
    if (entries_.size() <= most_) return;
    auto next = entries_.upper_bound(hand_);
    if (next == entries_.end()) next = entries_.begin();
    hand_ = next->first;
    entries_.erase(next);
}

void Catalog::watch(std::function<void()> watch) {
    Lock lock(mutex_);
    watch_ = std::move(watch);
}

std::uint64_t Catalog::tick() {
    if (watch_) watch_();
    return ++epoch_;
}

void Catalog::advance() {
    Lock lock(mutex_);
    tick();
}

void Catalog::distrust_links() {
    Lock lock(mutex_);
    links_distrusted_ = tick();
}

std::size_t Catalog::refresh(const std::string& prefix) {
    Lock lock(mutex_);
    tick();
    std::size_t forgotten = entries_.erase(prefix);
    std::string below = prefix.ends_with('/') ? prefix : prefix + "/";
    auto first = entries_.lower_bound(below), last = first;
    for (; last != entries_.end() && last->first.starts_with(below); ++last) ++forgotten;
    entries_.erase(first, last);
    return forgotten;
}

void Catalog::forget(const std::string& path) {
    Lock lock(mutex_);
    tick();
    entries_.erase(path);
}

void Catalog::distrust() {
    Lock lock(mutex_);
    distrusted_ = tick();
}

}  // namespace holdfast
