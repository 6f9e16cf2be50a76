#include "store/operations.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/crc32c.hpp"
#include "base/fault.hpp"
#include "rpc/body.hpp"

namespace holdfast {
namespace {

constexpr std::size_t kListBytes = 256 << 10;  // of one page

Answer missing(const std::string& key) {
    return Status(Code::NotFound, "'" + key + "' is not here");
}

// The checksum of a range of a file, whose chunks are verified where the range cuts them.
Result<std::uint32_t> range_crc(const Object& object, const Fd& file, std::uint64_t offset,
                                std::uint64_t length) {
    std::unique_ptr<char, decltype(&std::free)> chunk(
        static_cast<char*>(std::aligned_alloc(4096, kChunk)), &std::free);
    std::uint32_t crc = 0;
    for (std::uint64_t at = offset, end = offset + length; at < end;) {
        std::uint64_t index = at / kChunk, start = index * kChunk;
        std::uint64_t size = std::min(kChunk, object.size - start);
        std::uint64_t stop = std::min(end, start + size);
        if (at == start && stop == start + size) {
            crc = crc32c_join(crc, object.chunks[index], size);
        } else {
            for (std::uint64_t got = 0; got < size;) {
                auto more = ::pread(file.get(), chunk.get() + got, size - got,
                                    static_cast<off_t>(start + got));
                if (more < 0 && errno == EINTR) continue;
                if (more <= 0) return Status(Code::Damaged, "the file is shorter than it was");
                got += static_cast<std::uint64_t>(more);
            }
            if (crc32c(0, chunk.get(), size) != object.chunks[index])
                return Status(Code::Damaged, "the file does not match its checksum");
            crc = crc32c(crc, chunk.get() + (at - start), stop - at);
        }
        at = stop;
    }
    return crc;
}

}  // namespace

std::variant<Answer, Blocking> Operations::handle(Request request) {
    switch (request.header.op) {
        case Op::Put:
            return put(request);
        case Op::Get:
            return get(request);
        case Op::Fill:
            return fill(request);
        case Op::Pull:
            return pull(request);
        case Op::List:
            return list(request);
        case Op::Call:
            return call(request);
        case Op::Drop:  // freeing a large file takes its time, even in memory
        case Op::Verify:
            return Blocking{lane::kDisk, [this, request = std::move(request)](Body&) {
                                return about_key(request);
                            }};
        case Op::Stat:
        case Op::Pin:
            return about_key(request);
    }
    return Answer(Status(Code::BadInput, "unknown operation"));
}

// ---- get -------------------------------------------------------------------------------------

Operations::Outcome Operations::get(Request& request) {
    auto message = GetMessage::decode(request.meta);
    if (!message.ok()) return Answer(message.take_status());
    ObjectPtr object = store_.find(message->key);
    if (!object) {
        ++counters_.missing;
        return missing(message->key);
    }
    bool descriptor = request.local && request.header.has(kDescriptor);
    bool whole = message->offset == 0 && message->length >= object->size;
    // Opening a file on a disk, and reading the edges of a range, may block.
    if (!object->in_heap && (object->tier == Tier::Disk || !whole))
        return Blocking{lane::kDisk, [this, object, message = *message, descriptor](Body&) {
                            return serve(object, message, descriptor);
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
    answer.meta = info(*object).encode();
    if (descriptor) {
        answer.flags = kDescriptor;
        answer.descriptor = std::move(*file);
        return answer;
    }
    std::uint64_t length = std::min(message.length, object->size - message.offset);
    if (length == object->size) {
        answer.body_crc = object->crc;
    } else {
        auto crc = range_crc(*object, *file, message.offset, length);
        if (!crc.ok()) {
            if (Status bad = store_.verify(object); !bad.ok()) return missing(object->key);
            return crc.take_status();
        }
        answer.body_crc = *crc;
    }
    counters_.get_bytes += length;
    answer.body = FileSlice{std::make_shared<const Fd>(std::move(*file)), message.offset, length,
                            object->tier == Tier::Disk};
    return answer;
}

Answer Operations::serve_heap(const ObjectPtr& object, const GetMessage& message) {
    Answer answer;
    answer.meta = info(*object).encode();
    std::uint64_t length = std::min(message.length, object->size - message.offset);
    const char* data = object->bytes.data() + message.offset;
    answer.body_crc = object->crc;
    if (length < object->size) {
        if (!store_.verify(object).ok()) return missing(object->key);
        answer.body_crc = crc32c(0, data, length);
    }
    counters_.get_bytes += length;
    answer.body = HeapSlice{object, data, length};
    fault_point(Stage::Get);  // it goes with its head, in one piece
    return answer;
}

// ---- fill and pull ---------------------------------------------------------------------------

Operations::Outcome Operations::fill(Request& request) {
    auto message = FillMessage::decode(request.meta);
    if (!message.ok()) return Answer(message.take_status());
    bool descriptor = request.local && request.header.has(kDescriptor);
    if (ObjectPtr object = store_.find(message->key)) {
        if (object->tier == Tier::Memory) return serve(object, {message->key}, descriptor);
        return Blocking{lane::kDisk, [this, object, descriptor](Body&) {  // not held up by misses
                            return serve(object, {object->key}, descriptor);
                        }};
    }
    return Blocking{lane::kOpen, [this, message = *message, descriptor](Body& body) -> Answer {
                        ObjectPtr stored = store_.find(message.key);
                        if (!stored) {
                            auto growing = fills_->join(message, body.patience());
                            if (!growing.ok()) return growing.take_status();
                            if (*growing) {
                                Answer answer;
                                answer.body = std::move(*growing);
                                return answer;
                            }
                            stored = store_.find(message.key);
                        }
                        if (!stored) return Status(Code::Busy, "evicted at once; try again");
                        return serve(stored, {message.key}, descriptor);
                    }};
}

Operations::Outcome Operations::pull(Request& request) {
    auto message = PullMessage::decode(request.meta);
    if (!message.ok()) return Answer(message.take_status());
    if (ObjectPtr object = store_.find(message->key)) {
        Answer answer;
        answer.meta = info(*object).encode();
        return answer;
    }
    return Blocking{lane::kPull, [this, message = *message](Body& body) {
                        return run_pull(message, body.patience());
                    }};
}

Answer Operations::run_pull(const PullMessage& message, Duration patience) {
    auto exchange = peers_.ask(message.from,
                               {.op = Op::Get, .meta = GetMessage{message.key}.encode()}, patience);
    if (!exchange.ok()) return exchange.take_status();
    auto theirs = ObjectInfo::decode(exchange->meta());
    if (!theirs.ok()) return theirs.take_status();
    auto writer = store_.create(
        {message.key, theirs->size, message.tier, theirs->has_source, theirs->copies});
    if (!writer.ok()) return writer.take_status();
    Status status = exchange->read_body([&](const char* data, std::size_t size) {
        fault_point(Stage::Pull);
        return writer->append(data, size);
    });
    if (!status.ok()) return status;
    auto object = writer->commit(exchange->reply().body_crc);
    if (!object.ok()) return object.take_status();
    ++counters_.pulls;
    Answer answer;
    answer.meta = info(**object).encode();
    return answer;
}

// ---- the small ones --------------------------------------------------------------------------

Answer Operations::about_key(const Request& request) {
    Answer answer;
    if (request.header.op == Op::Pin) {
        auto message = PinMessage::decode(request.meta);
        if (!message.ok()) return message.take_status();
        auto pins = store_.pin(message->key, message->add);
        if (!pins.ok()) return pins.take_status();
        return answer;
    }
    auto message = KeyMessage::decode(request.meta);
    if (!message.ok()) return message.take_status();
    if (request.header.op == Op::Drop) return store_.drop(message->key);
    ObjectPtr object = store_.find(message->key);
    if (!object) return missing(message->key);
    if (request.header.op == Op::Verify)
        if (Status status = store_.verify(object); !status.ok()) return status;
    answer.meta = info(*object).encode();
    return answer;
}

Answer Operations::list(const Request& request) {
    auto message = ListMessage::decode(request.meta);
    if (!message.ok()) return message.take_status();
    ListReply reply;
    std::size_t bytes = 0;
    // Some more than fit a page, so that `more` is known.
    for (auto& object : store_.list(message->prefix, message->after, 4096)) {
        reply.more = true;
        bytes += object->key.size() + 64;
        if (bytes > kListBytes) break;
        reply.more = false;
        reply.objects.push_back(info(*object));
    }
    reply.more |= reply.objects.size() == 4096;
    auto page = std::make_shared<const std::string>(reply.encode());
    Answer answer;
    answer.body_crc = crc32c(0, page->data(), page->size());
    answer.body = HeapSlice{page, page->data(), page->size()};
    return answer;
}

Operations::Outcome Operations::call(Request& request) {
    auto message = CallMessage::decode(request.meta);
    return Blocking{lane::kCall, [this, message = std::move(message)](Body& body) -> Answer {
                        auto text = body.read_message();
                        if (!text.ok()) return text.take_status();
                        if (!message.ok()) return message.status();
                        auto result = calls_.ask(message->service, message->method,
                                                 std::move(*text), body.patience());
                        if (!result.ok()) return result.take_status();
                        auto reply = std::make_shared<const std::string>(std::move(*result));
                        Answer answer;
                        answer.body_crc = crc32c(0, reply->data(), reply->size());
                        answer.body = HeapSlice{reply, reply->data(), reply->size()};
                        return answer;
                    }};
}

}  // namespace holdfast
