// Single-use files: what another node holds is received into one, which is then passed to readers
// and never written again, nor used for anything else.
//
// Until it is passed a file counts in the capacity of its tier, which is memory, or the disk where
// that has no room; from then on its pages are the readers', and go with the last of them. (They
// are not used again even then: what a program has sent from its file may still be on its way.)
// As long as they are there, no other file finds room where they lie (Store::really_free).
// Files have no name, so nothing is left of them whatever happens.
#pragma once

#include <cstdint>

#include "base/fd.hpp"
#include "base/status.hpp"
#include "store/store.hpp"

namespace holdfast {

// A file to be written once, by one thread, front to back, after its size is known. seal() ends
// that and gives what readers get.
class SingleUse {
  public:
    static Result<SingleUse> make(Store& store);
    SingleUse(SingleUse&& other) noexcept;
    SingleUse& operator=(SingleUse&&) = delete;
    ~SingleUse();

    // May evict objects, so it may block.
    Status set_size(std::uint64_t size);
    Status write(const char* data, std::size_t size);
    // A read-only descriptor of the file, if it is whole by now; nobody can write to it any more.
    Result<Fd> seal() &&;

  private:
    SingleUse(Store* store, TierDirectory::Nameless file) : store_(store), file_(std::move(file)) {}
    Status failed_to_write(int error);

    Store* store_;
    TierDirectory::Nameless file_;
    Tier tier_ = Tier::Memory;
    std::uint64_t room_ = 0;  // of the tier
    std::uint64_t size_ = 0, written_ = 0;
};

}  // namespace holdfast
