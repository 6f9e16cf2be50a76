#include "store/held_list.hpp"

#include <algorithm>
#include <iterator>

namespace holdfast {
namespace {

constexpr std::size_t kMost = 16384;  // in one answer

}  // namespace

HeldList::HeldList(std::uint64_t peer, const std::vector<std::uint32_t>& buckets) : peer_(peer) {
    for (auto bucket : buckets)
        if (bucket < Survey::kBuckets) wanted_[bucket] = true;
}

void HeldList::add(Held held, const Survey& survey) {
    std::size_t bucket = Survey::bucket_of(held.key);
    if (!wanted_[bucket]) return;
    Owners owners = survey.owners(held);
    if (owners.contains(survey.self()) && owners.contains(peer_))
        found_[bucket].push_back(std::move(held));
}

std::vector<Held> HeldList::take() {
    std::vector<Held> all;
    for (auto& bucket : found_) {
        if (!all.empty() && all.size() + bucket.size() > kMost) break;
        std::move(bucket.begin(), bucket.end(), std::back_inserter(all));
    }
    return all;
}

}  // namespace holdfast
