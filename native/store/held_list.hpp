// What two co-owners both own and one of them holds, in some buckets: a list that an ObjectIndex
// fills a page at a time. Not thread-safe. No I/O.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "store/survey.hpp"

namespace holdfast {

class HeldList {
  public:
    // With that member; numbers that are no buckets are ignored.
    HeldList(std::uint64_t peer, const std::vector<std::uint32_t>& buckets);

    // Whole buckets, in their order: one at least, and no more than fit an answer.
    std::vector<Held> take();

  private:
    friend class ObjectIndex;
    void add(Held held, const Survey& survey);

    const std::uint64_t peer_;
    std::array<bool, Survey::kBuckets> wanted_{};
    std::array<std::vector<Held>, Survey::kBuckets> found_;
    bool in_ghosts_ = false;  // all objects were looked at
    std::string reached_;     // the last key that was looked at
};

}  // namespace holdfast
