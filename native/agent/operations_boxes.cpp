// boxes: elements of cells, put together from their pieces: packed here, so that exactly what is
// wanted travels, or as the pieces' descriptors, for programs of this host.
#include "agent/operations.hpp"
#include "base/crc32c.hpp"
#include "base/fault.hpp"
#include "rpc/body.hpp"
#include "store/composition.hpp"

namespace holdfast {
namespace {

bool in_files(const std::vector<Composition::Part>& parts) {
    return std::ranges::none_of(parts, [](auto& part) { return part.object->in_heap; });
}

Status too_much() {
    return Status(Code::BadInput, "at most " + std::to_string(BoxesMessage::kMostBytes) +
                                      " bytes of boxes can be asked for at once; ask for fewer");
}

}  // namespace

Outcome Operations::boxes(Request& request) {
    bool descriptors = request.local && request.header.has(kDescriptor);
    return Blocking{lane::kDisk, [this, descriptors](Body& body) -> Answer {
                        auto text = body.read_message();
                        if (!text.ok()) return text.take_status();
                        auto message = BoxesMessage::decode(*text);
                        if (!message.ok()) return message.take_status();
                        Wait wait(incidents_, "boxes", message->entries.front().head, "",
                                  body.deadline(), body.arrived());
                        std::uint64_t bytes = 0;
                        Answer answer = boxes(*message, descriptors, bytes);
                        wait.ended(answer.status, bytes);
                        return answer;
                    }};
}

Answer Operations::boxes(const BoxesMessage& message, bool descriptors, std::uint64_t& packed) {
    std::vector<Composition> found;
    found.reserve(message.entries.size());
    BoxesReply reply;
    Answer answer;
    std::uint64_t most = 0;  // to be packed, unless something goes bad
    for (auto& entry : message.entries) {
        auto& one = found.emplace_back(store_, entry, message.item);
        auto& replied = reply.entries.emplace_back();
        if (!one.is_covered()) {
            replied.here = one.here();
            continue;
        }
        std::size_t passed = answer.descriptors.size() + one.parts().size();
        if (descriptors && passed <= BoxesReply::kMostPieces && in_files(one.parts())) {
            if (Status status = pass(one, replied, answer.descriptors); !status.ok()) return status;
            continue;
        }
        replied.kind = BoxesReply::Kind::Bytes;
        auto bytes = one.bytes();
        if (!bytes || *bytes > BoxesMessage::kMostBytes - most) return too_much();
        most += *bytes;
    }
    // One that was started anew here does not answer for the one before.
    if (std::ranges::any_of(found, [](auto& one) { return !one.is_covered(); }))
        if (Status other = placement_.is_wanted(message.wanted); !other.ok()) return other;
    std::shared_ptr<char[]> body(new char[most]);  // not cleared
    for (std::size_t i = 0; i < found.size(); ++i) {
        auto& replied = reply.entries[i];
        if (replied.kind != BoxesReply::Kind::Bytes) continue;
        auto whole = found[i].write(store_, body.get() + packed);
        if (!whole.ok()) return whole.take_status();
        if (*whole)
            packed += *found[i].bytes();
        else
            replied = {.here = BoxesReply::kBad};
    }
    fault_point(Stage::Get);
    ++counters_.gets;
    counters_.get_bytes += packed;
    answer.meta = reply.encode();
    if (!answer.descriptors.empty()) answer.flags = kDescriptor;
    if (packed == 0) return answer;
    answer.body_crc = crc32c(0, body.get(), packed);
    answer.body = HeapSlice{body, body.get(), packed};
    return answer;
}

// As it is, unverified, like a descriptor of any object.
Status Operations::pass(const Composition& one, BoxesReply::Entry& replied,
                        std::vector<Fd>& descriptors) {
    std::vector<Fd> files;
    for (auto& [object, box] : one.parts()) {
        auto file = store_.open_file(object);
        if (!file.ok() && file.status().code() == Code::Busy) return file.take_status();
        if (!file.ok()) {  // it is no longer here, and so the entry is not
            replied.here = BoxesReply::kBad;
            return {};
        }
        files.push_back(std::move(*file));
    }
    replied.kind = BoxesReply::Kind::Pieces;
    for (auto& [object, box] : one.parts()) replied.pieces.push_back({box, object->size});
    for (auto& file : files) descriptors.push_back(std::move(file));
    return {};
}

}  // namespace holdfast
