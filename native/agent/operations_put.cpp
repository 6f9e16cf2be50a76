// put: store an object here and at the owners after us, and answer when all of them have it.
//
// Rule 4: whoever computes other owners than the sender refuses, before it stores or passes on
// anything. The last owner commits first, so a refusal anywhere leaves nothing anywhere.
//
// Room is reserved along the whole chain before the first byte moves, and nobody waits for room: an
// owner without it refuses at once. The last owner commits first, so that an acknowledgement on its
// way back means a verified copy at every owner behind it.

#include "agent/operations.hpp"
#include "base/crc32c.hpp"
#include "base/fault.hpp"
#include "base/scratch.hpp"
#include "rpc/body.hpp"

namespace holdfast {
namespace {

constexpr std::size_t kPiece = 256 << 10;

PutMessage onward(const PutMessage& message) {
    PutMessage next = message;
    next.onward.erase(next.onward.begin());
    return next;
}

Store::NewObject wanted(const PutMessage& message, std::uint64_t size) {
    return {.key = message.key,
            .size = size,
            .tier = message.tier,
            .copies = message.copies(),
            .least = message.least(),
            .header = message.header};
}

// Our sender waits as long as `body.deadline()`; those behind us must fail before it does, or it
// would blame us for them.
Duration deadline_onward(const PutMessage& message, const Body& body) {
    auto hops = static_cast<Duration::rep>(message.onward.size());
    return body.deadline() * hops / (hops + 1);
}

}  // namespace

Outcome Operations::put(Request& request) {
    auto message = PutMessage::decode(request.meta);
    std::size_t lane = message.ok() ? message->onward.size() : 0;
    bool streamed = request.header.has(kAskFirst);
    // Only small bodies are held in memory: what pushes more without asking is cut off.
    if (!streamed && request.header.body_bytes > kHeapLimit)
        return Answer(Status(Code::BadInput, "a body of this size must be announced first"));
    return Blocking{
        lane, [this, message = std::move(message), streamed](Body& body) -> Answer {
            Wait wait(incidents_, "put", message.ok() ? std::string_view(message->key) : "", "",
                      body.deadline(), body.arrived());
            Answer answer(message.ok() ? fence(message->key, message->owners, message->without,
                                               message->copies(), true)
                                       : message.status());
            if (answer.status.ok())
                answer = streamed ? put_streamed(*message, body) : put_inline(*message, body);
            // A small body is on its way already: read it, so that the sender can go
            // on after the refusal.
            else if (!streamed)
                (void)body.read_message();
            wait.ended(answer.status, body.size());
            return answer;
        }};
}

Answer Operations::put_inline(const PutMessage& message, Body& body) {
    auto bytes = body.read_message();
    if (!bytes.ok()) return bytes.take_status();
    auto writer = handing_.create(wanted(message, bytes->size()));
    if (!writer.ok()) return writer.take_status();
    // Before it goes on: if the key holds other bytes here, nobody behind us may store these.
    if (Status status = writer->append(bytes->data(), bytes->size()); !status.ok()) return status;
    if (Status status = writer->compare_overlapped(); !status.ok()) return status;
    if (!message.onward.empty()) {
        fault_point(Stage::Chain);
        Duration deadline = deadline_onward(message, body);
        Wait wait(incidents_, "forward", message.key, message.onward.front(), deadline);
        auto reply =
            peers_.ask(message.onward.front(),
                       {.op = Op::Put, .meta = onward(message).encode(), .body = *bytes}, deadline);
        wait.ended(reply);
        if (!reply.ok()) return reply.take_status();
    }
    return commit(*writer, crc32c(0, bytes->data(), bytes->size()));
}

Answer Operations::put_streamed(const PutMessage& message, Body& body) {
    auto writer = handing_.create(wanted(message, body.size()));
    if (!writer.ok()) return writer.take_status();
    auto next = ask_next(message, body.size(), body);
    if (!next.ok()) return next.take_status();
    if (Status status = body.go_on(); !status.ok()) return status;

    // After a failure the rest is still read, so that our sender hears the reason and not a reset.
    Status failed;
    Scratch piece(kPiece);
    while (body.left() > 0) {
        auto got = body.read_some(piece.data(), kPiece);
        if (!got.ok()) return got.take_status();
        // Ours first: what we refuse (other bytes under the key) goes to nobody behind us.
        if (failed.ok()) failed = writer->append(piece.data(), *got);
        if (failed.ok() && *next) {
            fault_point(Stage::Chain);
            failed = (*next)->send_body(piece.data(), *got);
        }
    }
    auto crc = body.expected_crc();
    if (!crc.ok()) return crc.take_status();
    if (!failed.ok()) return failed;
    return finish(message, *writer, *next, *crc, body);
}

Result<std::optional<Exchange>> Operations::ask_next(const PutMessage& message, std::uint64_t size,
                                                     const Body& body) {
    std::optional<Exchange> next;
    if (message.onward.empty()) return next;
    Duration deadline = deadline_onward(message, body);
    Wait wait(incidents_, "forward", message.key, message.onward.front(), deadline);
    auto asked = peers_.ask(message.onward.front(),
                            {.op = Op::Put,
                             .flags = kAskFirst,
                             .meta = onward(message).encode(),
                             .announced_bytes = size},
                            deadline);
    wait.ended(asked);
    if (!asked.ok()) return asked.take_status();
    next.emplace(std::move(*asked));
    return next;
}

Answer Operations::finish(const PutMessage& message, Writer& writer, std::optional<Exchange>& next,
                          std::uint32_t crc, const Body& body) {
    // Those behind us store nothing before they have the checksum.
    Status failed = writer.compare_overlapped();
    if (next && failed.ok()) {
        Wait wait(incidents_, "forward", message.key, message.onward.front(),
                  deadline_onward(message, body));
        failed = next->finish_body(crc);
        wait.ended(failed);
    }
    return failed.ok() ? commit(writer, crc) : Answer(std::move(failed));
}

Answer Operations::commit(Writer& writer, std::uint32_t crc) {
    fault_point(Stage::Put);
    auto object = writer.commit(crc);
    if (!object.ok()) return object.take_status();
    ++counters_.puts;
    counters_.put_bytes += (*object)->size;
    return {};
}

}  // namespace holdfast
