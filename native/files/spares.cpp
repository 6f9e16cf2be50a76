#include "files/spares.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <optional>

#include "base/thread.hpp"

namespace holdfast {
namespace {

constexpr std::uint64_t kSmallest = 16 << 10, kMostBytes = std::uint64_t{1} << 62;
constexpr std::size_t kMostRemembered = 64;  // so also the most that are kept
constexpr std::uint64_t kShareOfTier = 8;    // one part in eight
constexpr std::uint64_t kShareOfLimit = 4;   // none may take more of the room for spares
// When nothing is read for so long, others may have the room.
constexpr auto kIdleTime = std::chrono::seconds(30);

std::uint64_t in_pages(std::uint64_t size) {
    if (size > kMostBytes) return ~std::uint64_t{0};  // which fits nowhere
    return std::max((size + kPage - 1) / kPage, std::uint64_t{1}) * kPage;
}

}  // namespace

// ---- one file --------------------------------------------------------------------------------

SingleUse::SingleUse(SingleUse&& other) noexcept
    : store_(std::exchange(other.store_, nullptr)),
      room_(other.room_),
      writing_(std::move(other.writing_)),
      reading_(std::move(other.reading_)),
      spare_(other.spare_),
      written_(other.written_) {}

SingleUse::~SingleUse() {
    if (store_) store_->give_back(room_);
}

Result<SingleUse> SingleUse::make(Store& store, std::uint64_t room) {
    if (Status status = store.set_aside(room); !status.ok()) return status;
    SingleUse file(&store, room);
    auto made = store.make_nameless();
    if (!made.ok()) return made.take_status();
    file.writing_ = std::move(made->writing);
    file.reading_ = std::move(made->reading);
    return file;
}

Status SingleUse::allocate() {
    if (int error = ::posix_fallocate(writing_.get(), 0, static_cast<off_t>(room_)))
        return system_failure(Code::Full, "no pages for a spare file", error);
    spare_ = true;
    return {};
}

Status SingleUse::write(const char* data, std::size_t size) {
    while (size > 0) {
        auto put = ::pwrite(writing_.get(), data, size, static_cast<off_t>(written_));
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) return system_failure(Code::Full, "cannot write a file for a reader", errno);
        data += put;
        size -= static_cast<std::size_t>(put);
        written_ += static_cast<std::uint64_t>(put);
    }
    return {};
}

Result<Fd> SingleUse::seal(std::uint64_t size) && {
    if (written_ != size) return Status(Code::Damaged, "a file for a reader is not whole");
    if (spare_ && size < room_ && ::ftruncate(writing_.get(), static_cast<off_t>(size)) != 0)
        return system_failure(Code::Damaged, "cannot cut a file for a reader", errno);
    writing_.reset();
    return std::move(reading_);
}

// ---- the spare ones --------------------------------------------------------------------------

Spares::~Spares() {
    {
        std::lock_guard lock(mutex_);
        stopping_ = true;
        wake_.notify_all();
    }
    if (maker_.joinable()) maker_.join();
}

// Four sizes for each power of two: at most a fifth of the pages were made in vain.
std::uint64_t Spares::room_for(std::uint64_t size) {
    if (size <= kSmallest) return kSmallest;
    if (size > kMostBytes) return ~std::uint64_t{0};
    std::uint64_t step = std::bit_ceil(size) / 8;
    return (size + step - 1) / step * step;
}

void Spares::set_limit(std::uint64_t bytes) {
    std::lock_guard lock(mutex_);
    limit_ = std::min(bytes, store_.usage(Tier::Memory).capacity / kShareOfTier);
    while (taken_bytes_ > limit_) forget_oldest();
    asleep_ = false;
    wake_.notify_all();
}

std::uint64_t Spares::kept() {
    std::lock_guard lock(mutex_);
    return kept_;
}

void Spares::remember(std::uint64_t room) {
    taken_.push_front(room);
    taken_bytes_ += room;
    ++sizes_[room].wanted;
    while (taken_bytes_ > limit_ || taken_.size() > kMostRemembered) forget_oldest();
}

void Spares::forget_oldest() {
    std::uint64_t room = taken_.back();
    taken_.pop_back();
    taken_bytes_ -= room;
    --sizes_[room].wanted;
}

Result<SingleUse> Spares::take(std::uint64_t size) {
    std::uint64_t room = room_for(size);
    {
        std::lock_guard lock(mutex_);
        if (room <= limit_ / kShareOfLimit) remember(room);
        auto found = sizes_.lower_bound(room);
        while (found != sizes_.end() && found->second.ready.empty()) ++found;
        bool fits = found != sizes_.end() && found->first <= 2 * room;
        std::optional<SingleUse> file;
        if (fits) {
            auto& ready = found->second.ready;
            file.emplace(std::move(ready.back()));
            ready.pop_back();
            kept_ -= found->first;
        }
        // Not for each one: waking a thread costs as much as a small file.
        auto own = sizes_.find(room);
        if (own != sizes_.end() && 4 * own->second.ready.size() < 3 * own->second.wanted) {
            if (!maker_.joinable()) maker_ = start_thread([this] { run(); });
            asleep_ = false;
            wake_.notify_one();
        }
        if (file) return std::move(*file);
    }
    return SingleUse::make(store_, in_pages(size));
}

std::uint64_t Spares::next() {
    std::uint64_t missing = 0;
    for (auto& [room, size] : sizes_)
        if (size.ready.size() < size.wanted) missing = room;
    // What nobody wants at this moment may be wanted at the next, and is discarded only to make
    // room.
    for (auto entry = sizes_.begin(); entry != sizes_.end();) {
        auto& [room, size] = *entry;
        for (; size.ready.size() > size.wanted && kept_ + missing > limit_; kept_ -= room)
            size.ready.pop_back();
        bool of_use = size.wanted > 0 || !size.ready.empty();
        entry = of_use ? std::next(entry) : sizes_.erase(entry);
    }
    return missing;
}

void Spares::run() {
    std::unique_lock lock(mutex_);
    while (!stopping_) {
        std::uint64_t room = asleep_ ? 0 : next();
        if (room == 0) {
            asleep_ = true;
            auto woken = [&] { return stopping_ || !asleep_; };
            if (wake_.wait_for(lock, kIdleTime, woken)) continue;
            taken_.clear();
            sizes_.clear();
            taken_bytes_ = kept_ = 0;
            wake_.wait(lock, woken);
            continue;
        }
        lock.unlock();
        auto file = SingleUse::make(store_, room);
        Status status = file.ok() ? file->allocate() : file.take_status();
        lock.lock();
        if (!status.ok()) {  // there is no room: try again when more are taken
            asleep_ = true;
            continue;
        }
        kept_ += room;
        sizes_[room].ready.push_back(std::move(*file));
    }
}

}  // namespace holdfast
