#include "store/writer.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/crc32c.hpp"
#include "store/store.hpp"

namespace holdfast {

Writer::~Writer() {
    if (store_ && !existing_) store_->abandon(*object_, temporary_);
}

// Keeps the checksum of each chunk, the last one unfinished.
void Writer::sum(const char* data, std::size_t size) {
    auto& chunks = object_->chunks;
    for (std::uint64_t at = written_; size > 0;) {
        if (at % kChunk == 0) chunks.push_back(0);
        auto part = std::min<std::uint64_t>(size, kChunk - at % kChunk);
        chunks.back() = crc32c(chunks.back(), data, part);
        data += part;
        at += part;
        size -= part;
    }
}

std::uint32_t Writer::crc() const {
    std::uint32_t crc = 0;
    std::uint64_t left = written_;
    for (std::uint32_t chunk : object_->chunks) {
        auto size = std::min(left, kChunk);
        crc = crc32c_join(crc, chunk, size);
        left -= size;
    }
    return crc;
}

Status Writer::append(const char* data, std::size_t size) {
    if (size > object_->size - written_)
        return Status(Code::BadInput, "more bytes than announced for '" + object_->key + "'");
    sum(data, size);
    if (existing_) return compare(data, size);
    if (object_->in_heap) {
        object_->bytes.append(data, size);
        written_ += size;
        return {};
    }
    while (size > 0) {
        auto put = ::pwrite(file_.get(), data, size, static_cast<off_t>(written_));
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) {
            int error = errno;
            Code code = error == ENOSPC || error == EDQUOT ? Code::Full : Code::Damaged;
            if (store_->write_failed(object_->tier, error)) code = Code::Busy;  // not the next time
            return system_failure(code, "cannot write '" + object_->key + "'", error);
        }
        data += put;
        size -= static_cast<std::size_t>(put);
        written_ += static_cast<std::uint64_t>(put);
    }
    return {};
}

// Fails at the first other byte, so that it goes to no owner after us.
Status Writer::compare(const char* data, std::size_t size) {
    bool same = false;
    if (existing_->in_heap) {
        same = std::memcmp(existing_->bytes.data() + written_, data, size) == 0;
    } else {
        std::string stored(size, '\0');
        std::size_t at = 0;
        while (at < size) {
            auto got = ::pread(file_.get(), stored.data() + at, size - at,
                               static_cast<off_t>(written_ + at));
            if (got < 0 && errno == EINTR) continue;
            if (got <= 0) break;
            at += static_cast<std::size_t>(got);
        }
        same = at == size && std::memcmp(stored.data(), data, size) == 0;
    }
    written_ += size;
    return same ? Status() : store_->other_contents(existing_);
}

Result<ObjectPtr> Writer::commit(std::uint32_t expected_crc) {
    if (written_ != object_->size)
        return Status(Code::Damaged, "'" + object_->key + "' has " + std::to_string(written_) +
                                         " bytes instead of " + std::to_string(object_->size));
    object_->crc = crc();
    if (object_->crc != expected_crc)
        return Status(Code::Damaged, "the bytes of '" + object_->key +
                                         "' do not match their checksum; put it again");
    if (Status status = compare_overlapped(); !status.ok()) return status;
    if (existing_) {
        if (auto kept = store_->raise_copies(existing_, object_->copies, object_->least))
            return kept;
        if (store_->absent(object_->key).code() == Code::Dropped)
            return Status(Code::KeyExists,
                          "'" + object_->key +
                              "' was dropped in the meantime; a key is written once, "
                              "choose another");
        return Status(Code::Busy, "'" + object_->key + "' has since left the store; try again");
    }
    if (!object_->in_heap) {
        auto& directory = store_->tier(object_->tier).directory;
        if (Status status = directory.publish(temporary_, object_->name); !status.ok()) {
            int error = errno;
            if (store_->write_failed(object_->tier, error))
                return system_failure(Code::Busy, "cannot write '" + object_->key + "'", error);
            return status;
        }
        temporary_ = object_->name;  // until the store has taken it
    }
    if (Status status = store_->publish(object_); !status.ok()) return status;
    store_.release();
    return ObjectPtr(object_);
}

Result<Fd> Writer::reopen() const {
    return store_->tier(object_->tier).directory.open(temporary_);
}

}  // namespace holdfast
