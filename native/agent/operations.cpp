#include "agent/operations.hpp"

#include <algorithm>

#include "base/crc32c.hpp"
#include "base/fault.hpp"
#include "rpc/body.hpp"

namespace holdfast {
namespace {

constexpr std::size_t kListBytes = 256 << 10;  // of one page
constexpr std::size_t kListObjects = 4096;     // likewise

}  // namespace

void Operations::add_to(Handlers& handlers) {
    handlers.add(Op::Put, [this](Request& request) { return put(request); });
    handlers.add(Op::Hand, [this](Request& request) { return hand(request); });
    handlers.add(Op::Seal, [this](Request& request) { return seal(request); });
    handlers.add(Op::Get, [this](Request& request) { return get(request); });
    handlers.add(Op::Boxes, [this](Request& request) { return boxes(request); });
    handlers.add(Op::List, [this](Request& request) -> Outcome {
        if (!store_.is_sweeping()) return list(request);
        // What was dropped and still lies there is passed over, however much it is.
        return Blocking{lane::kDisk,
                        [this, request = std::move(request)](Body&) { return list(request); }};
    });
    handlers.add(Op::Call, [this](Request& request) { return call(request); });
    handlers.add(Op::Wait, [this](Request& request) { return wait(request); });
    handlers.add(Op::Stat, [this](Request& request) { return stat(request, false); });
    handlers.add(Op::Verify, [this](Request& request) -> Outcome {
        return Blocking{lane::kDisk, [this, request = std::move(request)](Body&) {
                            return stat(request, true);
                        }};
    });
    // Freeing a large file takes its time, even in memory.
    handlers.add(Op::DropBelow, [this](Request& request) -> Outcome {
        return Blocking{lane::kDisk, [this, request = std::move(request)](Body&) {
                            return drop_below(request);
                        }};
    });
    handlers.add(Op::Drop, [this](Request& request) -> Outcome {
        return Blocking{lane::kDisk,
                        [this, request = std::move(request)](Body&) { return drop(request); }};
    });
}

Status Operations::fence(const std::string& key, Numbers owners, Numbers without,
                         std::size_t copies, bool must_own) const {
    PlacementPtr placement = placement_.get();
    if (!placement)
        return Status(Code::StaleView, "this agent does not know its peers yet; try again");
    if (Status status = may_leave_out(*placement, key, without, copies); !status.ok())
        return status;
    Owners ours = placement->owners(key, copies, without);
    if (ours == owners && (!must_own || ours.contains(placement_.self()))) return {};
    return Status(Code::StaleView, "'" + key + "' has other owners in this agent's view; " +
                                       "try again when the views agree");
}

Status Operations::may_leave_out(const Placement& placement, const std::string& key,
                                 Numbers without, std::size_t copies) const {
    const SlotTable* table = placement.table(key);
    std::size_t most = table ? table->may_leave_out : 0;
    // Two lists of which either may leave out others have an owner in common only if both are
    // longer than that. Else two contents could be acknowledged, or one that was dropped.
    if (copies <= most)
        return Status(Code::BadInput, "'" + key + "' needs at least " + std::to_string(most + 1) +
                                          " copies, because its key space lets a writer skip " +
                                          std::to_string(most) + " owners");
    if (without.empty()) return {};
    if (without.size() > most)
        return Status(Code::BadInput, "a writer may skip at most " + std::to_string(most) +
                                          " of the owners of '" + key + "', not " +
                                          std::to_string(without.size()));
    // Who is dead here is in no slot any more, so that to leave it out changes nothing.
    for (std::uint64_t member : table->members(key))
        if (std::ranges::find(without, member) != without.end() && !placement_.suspects(member))
            return Status(Code::StaleView,
                          "the writer skipped an owner of '" + key +
                              "' that this agent considers alive; try again when " +
                              "the views agree");
    if (placement.owners(key, copies, without).count <= most)
        return Status(Code::StaleView, "too few owners of '" + key + "' remain after skipping " +
                                           "the failed ones; try again when they are back");
    return {};
}

// ---- pull ------------------------------------------------------------------------------------

Result<ObjectPtr> Operations::pull_here(const Pull& wanted, Duration deadline) {
    if (ObjectPtr object = store_.find(wanted.key)) return compare_there(object, wanted, deadline);
    if (Status gone = store_.absent(wanted.key); gone.code() == Code::Dropped) return gone;
    Wait wait(incidents_, "pull", wanted.key, wanted.from, deadline);
    auto exchange = peers_.ask(
        wanted.from, {.op = Op::Get, .meta = GetMessage{wanted.key}.encode(), .in_pieces = true},
        deadline);
    if (!exchange.ok()) {
        wait.ended(exchange);
        return exchange.take_status();
    }
    auto theirs = ObjectInfo::decode(exchange->meta());
    if (!theirs.ok()) return damaged_there(wanted, theirs.take_status(), deadline);
    auto writer = handing_.create({.key = wanted.key,
                                   .size = theirs->size,
                                   .tier = wanted.tier,
                                   .has_source = theirs->has_source,
                                   .copies = theirs->copies,
                                   .least = theirs->least,
                                   .header = theirs->header,
                                   .is_copy = true});
    if (!writer.ok()) {
        if (writer.status().code() == Code::Full && theirs->has_source)
            store_.let_go({theirs->key, theirs->size, theirs->header.behind(theirs->crc),
                           wanted.tier, theirs->copies, theirs->has_source});
        return writer.take_status();
    }
    Status status = exchange->read_body([&](const char* data, std::size_t size) {
        fault_point(Stage::Pull);
        return writer->append(data, size);
    });
    wait.ended(status, theirs->size);
    if (!status.ok()) return damaged_there(wanted, std::move(status), deadline);
    auto object = writer->commit(exchange->reply().body_crc);
    if (!object.ok()) {
        Status gone = store_.absent(wanted.key);
        return gone.code() == Code::Dropped ? gone : object.take_status();
    }
    ++counters_.pulls;
    counters_.pulled_bytes += theirs->size;
    return object;
}

// Bad on its way, or bad at its source? That agent looks again and gives up a bad copy.
Status Operations::damaged_there(const Pull& wanted, Status status, Duration deadline) {
    if (status.code() == Code::Damaged)
        (void)peers_.ask(wanted.from, {.op = Op::Verify, .meta = KeyMessage{wanted.key}.encode()},
                         deadline);
    return status;
}

// We have it already: are we right about it, and do the others want more copies than we know of?
Result<ObjectPtr> Operations::compare_there(const ObjectPtr& object, const Pull& wanted,
                                            Duration deadline) {
    auto exchange = peers_.ask(wanted.from,
                               {.op = Op::Stat, .meta = KeyMessage{wanted.key}.encode()}, deadline);
    if (!exchange.ok()) return exchange.take_status();
    auto theirs = ObjectInfo::decode(exchange->meta());
    if (!theirs.ok()) return theirs.take_status();
    bool same =
        theirs->size == object->size && theirs->header.behind(theirs->crc) == object->full_crc();
    if (!same)
        return Status(Code::KeyExists, "'" + wanted.key + "' has other contents here", wanted.from);
    ObjectPtr kept = store_.raise_copies(object, theirs->copies, theirs->least);
    return kept ? kept : object;
}

// ---- the small ones --------------------------------------------------------------------------

Status Operations::drop(const DropMessage& message) {
    // A sender that knows fewer members than copies are wanted has a short list, with which ours
    // may begin: it counts only if no more copies were wanted.
    std::size_t copies = std::max<std::size_t>(message.owners.size(), message.copies);
    if (ObjectPtr object = store_.find(message.key))
        copies = std::max<std::size_t>(copies, object->copies);
    Status stale = fence(message.key, message.owners, message.without, copies, false);
    if (stale.ok()) store_.drop(message.key);
    return stale;
}

Status Operations::absent(const std::string& key, std::uint64_t expected_member) {
    Status status = store_.absent(key);
    if (status.code() != Code::NotFound) return status;
    Status other = placement_.is_wanted(expected_member);
    return other.ok() ? status : other;
}

Answer Operations::drop(const Request& request) {
    auto message = DropMessage::decode(request.meta);
    if (!message.ok()) return message.take_status();
    auto deadline = std::chrono::milliseconds(request.header.deadline_ms);
    Wait wait(incidents_, "drop", message->key, "", deadline);
    Status status = drop(*message);
    wait.ended(status);
    return status;
}

Answer Operations::drop_below(const Request& request) {
    auto mark = Watermark::decode(request.meta);
    if (!mark) return Status(Code::BadInput, "the meta holds no watermark");
    if (mark->prefix.starts_with(kFilePrefix))
        return Status(Code::BadInput, "files are not dropped by a watermark");
    Wait wait(incidents_, "drop below", mark->prefix, "",
              std::chrono::milliseconds(request.header.deadline_ms));
    store_.learn({{Topic::Watermark, mark->encode()}});
    wait.ended(Status());
    return {};
}

Answer Operations::stat(const Request& request, bool verify) {
    auto message = KeyMessage::decode(request.meta);
    if (!message.ok()) return message.take_status();
    ObjectPtr object = store_.find(message->key);
    if (!object) return absent(message->key, message->expected_member);
    if (verify)
        if (Status status = store_.verify(object); !status.ok()) return status;
    Answer answer;
    answer.meta = ObjectInfo::of(*object).encode();
    return answer;
}

Answer Operations::list(const Request& request) {
    auto message = ListMessage::decode(request.meta);
    if (!message.ok()) return message.take_status();
    ListReply reply;
    std::size_t bytes = 0;
    // Some more than fit a page, so that `more` is known.
    auto found = store_.list(message->prefix, message->after, kListObjects);
    for (auto& object : found) {
        if (!object->header.sound()) {
            (void)store_.verify(object);  // and it is given up
            continue;
        }
        reply.more = true;
        bytes += object->key.size() + object->header.bytes.size() + 64;
        if (bytes > kListBytes) break;
        reply.more = false;
        reply.objects.push_back(ObjectInfo::of(*object));
    }
    reply.more |= found.size() == kListObjects;
    auto page = std::make_shared<const std::string>(reply.encode());
    Answer answer;
    answer.body_crc = crc32c(0, page->data(), page->size());
    answer.body = HeapSlice{page, page->data(), page->size()};
    return answer;
}

Outcome Operations::call(Request& request) {
    auto message = CallMessage::decode(request.meta);
    return Blocking{
        lane::kCall, [this, message = std::move(message)](Body& body) -> Answer {
            auto text = body.read_message();
            if (!text.ok()) return text.take_status();
            if (!message.ok()) return message.status();
            Wait wait(incidents_, "call", message->service, "", body.deadline(), body.arrived());
            auto result =
                calls_.ask(message->service, message->method, std::move(*text), body.deadline());
            wait.ended(result);
            if (!result.ok()) return result.take_status();
            auto reply = std::make_shared<const std::string>(std::move(*result));
            Answer answer;
            answer.body_crc = crc32c(0, reply->data(), reply->size());
            answer.body = HeapSlice{reply, reply->data(), reply->size()};
            return answer;
        }};
}

Outcome Operations::wait(Request& request) {
    auto message = WaitMessage::decode(request.meta);
    if (!message.ok()) return Answer(message.take_status());
    return Parked{[this, call = std::move(*message)](Parked::Reply reply) mutable {
        auto id = calls_.park(std::move(call.service), std::move(call.method),
                              std::move(call.message), call.within, std::move(reply));
        using Parking = Result<Parked::Cancel>;
        return id.ok() ? Parking([this, id = *id] { calls_.cancel(id); })
                       : Parking(id.take_status());
    }};
}

}  // namespace holdfast
