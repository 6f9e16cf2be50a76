#include "store/object_reader.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/crc32c.hpp"

namespace holdfast {
namespace {

template <std::size_t kItem>
void copy_apart(const char* from, std::uint64_t step, std::uint64_t count, char* out) {
    for (; count > 0; --count, from += step, out += kItem) std::memcpy(out, from, kItem);
}

// Those of usual sizes in loops of their own, without a call for each.
void copy_apart(const char* from, std::uint64_t step, std::uint64_t count, std::size_t item,
                char* out) {
    switch (item) {
        case 1:
            return copy_apart<1>(from, step, count, out);
        case 2:
            return copy_apart<2>(from, step, count, out);
        case 4:
            return copy_apart<4>(from, step, count, out);
        case 8:
            return copy_apart<8>(from, step, count, out);
        case 16:
            return copy_apart<16>(from, step, count, out);
        default:
            for (; count > 0; --count, from += step, out += item) std::memcpy(out, from, item);
    }
}

}  // namespace

ObjectReader::ObjectReader(const Object& object, Fd file, bool verified)
    : object_(object), file_(std::move(file)), verified_(verified) {}

Status ObjectReader::load(std::uint64_t offset) {
    if (object_.in_heap) {
        if (verified_ && crc32c(0, object_.bytes.data(), object_.bytes.size()) != object_.crc)
            return Status(Code::Damaged, "its bytes in memory do not match their checksum");
        window_ = object_.bytes;
        return {};
    }
    if (!chunk_) chunk_.emplace(kChunk);
    begin_ = offset / kChunk * kChunk;
    window_ = {};
    auto size = static_cast<std::size_t>(std::min(kChunk, object_.size - begin_));
    for (std::size_t at = 0; at < size;) {
        auto got =
            ::pread(file_.get(), chunk_->data() + at, size - at, static_cast<off_t>(begin_ + at));
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return Status(Code::Damaged, "its file cannot be read");
        at += static_cast<std::size_t>(got);
    }
    if (verified_ && crc32c(0, chunk_->data(), size) != object_.chunks[begin_ / kChunk])
        return Status(Code::Damaged, "its file does not match its checksum");
    window_ = {chunk_->data(), size};
    return {};
}

Result<std::string_view> ObjectReader::peek(std::uint64_t offset, std::uint64_t most) {
    if (offset < begin_ || offset - begin_ >= window_.size())
        if (Status status = load(offset); !status.ok()) return status;
    return window_.substr(static_cast<std::size_t>(offset - begin_),
                          static_cast<std::size_t>(most));
}

Status ObjectReader::gather(std::uint64_t offset, std::uint64_t step, std::uint64_t count,
                            std::size_t item, char* out) {
    if (step == item || count == 1) item *= count, count = 1;
    while (count > 0) {
        std::size_t here = 0;
        while (here < item) {
            auto bytes = peek(offset + here, item - here);
            if (!bytes.ok()) return bytes.take_status();
            bytes->copy(out + here, bytes->size());
            here += bytes->size();
        }
        offset += step, out += item, --count;
        // Those behind it that lie here whole.
        if (count == 0 || offset < begin_ || offset - begin_ + item > window_.size()) continue;
        std::uint64_t at = offset - begin_;
        std::uint64_t whole = std::min(count, (window_.size() - item - at) / step + 1);
        copy_apart(window_.data() + at, step, whole, item, out);
        offset += whole * step, out += whole * item, count -= whole;
    }
    return {};
}

}  // namespace holdfast
