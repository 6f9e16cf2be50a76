// Memory that bytes are copied through: not cleared, and aligned, since reading a cached file into
// memory at odd offsets is several times slower.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <utility>

namespace holdfast {

class Scratch {
  public:
    explicit Scratch(std::size_t size)
        : bytes_(std::move(spare().bytes)), size_(std::exchange(spare().size, 0)) {
        if (size_ >= size) return;
        size_ = (size + kAlignment - 1) / kAlignment * kAlignment;
        bytes_.reset(static_cast<char*>(std::aligned_alloc(kAlignment, size_)));
        if (!bytes_) throw std::bad_alloc();
    }
    // Pages are kept for the next one on this thread: fresh ones cost more than small copies.
    ~Scratch() {
        if (size_ <= kMostSpare && size_ > spare().size) spare() = {std::move(bytes_), size_};
    }
    Scratch(Scratch&& other) noexcept
        : bytes_(std::move(other.bytes_)), size_(std::exchange(other.size_, 0)) {}
    Scratch& operator=(Scratch&&) = delete;

    char* data() { return bytes_.get(); }

  private:
    struct Free {
        void operator()(char* bytes) const { std::free(bytes); }
    };
    using Bytes = std::unique_ptr<char, Free>;
    // What this thread used last.
    struct Spare {
        Bytes bytes;
        std::size_t size = 0;
    };
    static Spare& spare() {
        thread_local Spare one;
        return one;
    }

    static constexpr std::size_t kAlignment = 4096;
    static constexpr std::size_t kMostSpare = 1 << 20;

    Bytes bytes_;
    std::size_t size_;
};

}  // namespace holdfast
