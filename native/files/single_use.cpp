#include "files/single_use.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace holdfast {
namespace {

constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 62;

std::uint64_t in_pages(std::uint64_t size) {
    if (size > kMostBytes) return ~std::uint64_t{0};  // which fits nowhere
    return std::max((size + kPage - 1) / kPage, std::uint64_t{1}) * kPage;
}

}  // namespace

SingleUse::SingleUse(SingleUse&& other) noexcept
    : store_(std::exchange(other.store_, nullptr)),
      file_(std::move(other.file_)),
      tier_(other.tier_),
      room_(other.room_),
      size_(other.size_),
      written_(other.written_) {}

SingleUse::~SingleUse() {
    if (store_) store_->give_back(tier_, room_);
}

Result<SingleUse> SingleUse::make(Store& store) {
    auto file = store.nameless_files(Tier::Memory).make_nameless();
    if (!file.ok()) return file.take_status();
    return SingleUse(&store, std::move(*file));
}

Status SingleUse::set_size(std::uint64_t size) {
    std::uint64_t room = in_pages(size);
    auto found = store_->set_aside(room);
    if (!found.ok()) return found.take_status();
    tier_ = *found;
    room_ = room;
    size_ = size;
    auto& directory = store_->nameless_files(tier_);
    if (tier_ != Tier::Memory) {
        auto file = directory.make_nameless();
        if (!file.ok()) return failed_to_write(errno);
        file_ = std::move(*file);
    }
    directory.announce(file_.writing, size);
    return {};
}

Status SingleUse::write(const char* data, std::size_t size) {
    if (size > size_ - written_)
        return Status(Code::Damaged, "received more bytes than the file has");
    while (size > 0) {
        auto put = ::pwrite(file_.writing.get(), data, size, static_cast<off_t>(written_));
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) return failed_to_write(errno);
        data += put;
        size -= static_cast<std::size_t>(put);
        written_ += static_cast<std::uint64_t>(put);
    }
    return {};
}

Status SingleUse::failed_to_write(int error) {
    store_->write_failed(tier_, error);
    return system_failure(Code::Full, "cannot write a temporary copy for a reader", error);
}

Result<Fd> SingleUse::seal() && {
    if (written_ != size_)
        return Status(Code::Damaged, "a temporary copy for a reader is incomplete");
    file_.writing.reset();
    // Nobody sees what the reader meets there, so that a disk which fails all reads would never be
    // found out.
    char first;
    if (tier_ == Tier::Disk && size_ > 0 && ::pread(file_.reading.get(), &first, 1, 0) < 0) {
        int error = errno;
        store_->medium_failed(tier_, error);
        return system_failure(Code::Full, "cannot read a temporary copy for a reader", error);
    }
    return std::move(file_.reading);
}

}  // namespace holdfast
