// get: bytes of an object, or its descriptor, never of a copy that is known to be bad.
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "agent/operations.hpp"
#include "base/crc32c.hpp"
#include "base/fault.hpp"
#include "base/scratch.hpp"
#include "rpc/body.hpp"

namespace holdfast {
namespace {

// The checksum of a range of a file, whose chunks are verified where the range cuts them.
Result<std::uint32_t> range_crc(const Object& object, const Fd& file, std::uint64_t offset,
                                std::uint64_t length) {
    Scratch chunk(kChunk);
    std::uint32_t crc = 0;
    for (std::uint64_t at = offset, end = offset + length; at < end;) {
        std::uint64_t index = at / kChunk, start = index * kChunk;
        std::uint64_t size = std::min(kChunk, object.size - start);
        std::uint64_t stop = std::min(end, start + size);
        if (at == start && stop == start + size) {
            crc = crc32c_join(crc, object.chunks[index], size);
        } else {
            for (std::uint64_t got = 0; got < size;) {
                auto more = ::pread(file.get(), chunk.data() + got, size - got,
                                    static_cast<off_t>(start + got));
                if (more < 0 && errno == EINTR) continue;
                if (more <= 0) return Status(Code::Damaged, "the file is shorter than it was");
                got += static_cast<std::uint64_t>(more);
            }
            if (crc32c(0, chunk.data(), size) != object.chunks[index])
                return Status(Code::Damaged, "the file does not match its checksum");
            crc = crc32c(crc, chunk.data() + (at - start), stop - at);
        }
        at = stop;
    }
    return crc;
}

}  // namespace

Outcome Operations::get(Request& request) {
    auto message = GetMessage::decode(request.meta);
    if (!message.ok()) return Answer(message.take_status());
    ObjectPtr object = store_.find(message->key);
    if (!object) {
        ++counters_.missing;
        store_.missed(message->key);
        return Answer(absent(message->key, message->expected_member));
    }
    bool descriptor = request.local && request.header.has(kDescriptor);
    bool whole = message->offset == 0 && message->length >= object->size;
    // Opening a file on a disk, and reading the edges of a range, may block.
    if (!object->in_heap && (object->tier == Tier::Disk || !whole))
        return Blocking{lane::kDisk, [this, object, message = *message, descriptor](Body& body) {
                            Wait wait(incidents_, "get", message.key, "", body.deadline(),
                                      body.arrived());
                            Answer answer = serve(object, message, descriptor);
                            wait.ended(answer.status);
                            return answer;
                        }};
    return serve(object, *message, descriptor);
}

Answer Operations::serve(const ObjectPtr& object, const GetMessage& message, bool descriptor) {
    if (message.offset > object->size)
        return Status(Code::BadInput, "offset " + std::to_string(message.offset) + " of '" +
                                          object->key + "' is beyond its " +
                                          std::to_string(object->size) + " bytes");
    ++counters_.gets;
    if (object->in_heap) return serve_heap(object, message);
    auto file = store_.open_file(object);
    if (!file.ok()) return file.take_status();
    Answer answer;
    answer.meta = ObjectInfo::of(*object).encode();
    if (descriptor) {
        answer.flags = kDescriptor;
        answer.descriptors.push_back(std::move(*file));
        return answer;
    }
    std::uint64_t length = std::min(message.length, object->size - message.offset);
    if (length == object->size) {
        answer.body_crc = object->crc;
    } else {
        auto crc = range_crc(*object, *file, message.offset, length);
        if (!crc.ok()) {
            if (Status bad = store_.verify(object); !bad.ok()) return store_.absent(object->key);
            return crc.take_status();
        }
        answer.body_crc = *crc;
    }
    counters_.get_bytes += length;
    FileSlice slice{std::make_shared<const Fd>(std::move(*file)), message.offset, length,
                    object->tier == Tier::Disk};
    if (slice.may_block)
        slice.unreadable = [this, object](int error) { store_.unreadable(object, error); };
    answer.body = std::move(slice);
    return answer;
}

Answer Operations::serve_heap(const ObjectPtr& object, const GetMessage& message) {
    Answer answer;
    answer.meta = ObjectInfo::of(*object).encode();
    std::uint64_t length = std::min(message.length, object->size - message.offset);
    const char* data = object->bytes.data() + message.offset;
    answer.body_crc = object->crc;
    if (length < object->size) {
        if (!store_.verify(object).ok()) return store_.absent(object->key);
        answer.body_crc = crc32c(0, data, length);
    }
    counters_.get_bytes += length;
    answer.body = HeapSlice{object, data, length};
    fault_point(Stage::Get);  // it goes with its head, in one piece
    return answer;
}

}  // namespace holdfast
