// hand: files for programs of this node to write objects to. seal: such a file becomes an object,
// here and at the owners after us, as by a put (operations_put.cpp).
#include <algorithm>

#include "agent/operations.hpp"
#include "base/fault.hpp"
#include "base/passing.hpp"
#include "rpc/body.hpp"

namespace holdfast {
namespace {

constexpr std::uint64_t kPiece = 256 << 10;
static_assert(HandMessage::kMost <= Passing::kMost);

Status not_local() {
    return Status(Code::BadInput, "files are handed to programs of the same host only");
}

// What this connection was handed. Nobody but hand and seal keeps anything for a connection.
Handing::Holder& holder_of(std::unique_ptr<Kept>& kept, Handing& handing) {
    if (!kept) kept = std::make_unique<Handing::Holder>(handing);
    return static_cast<Handing::Holder&>(*kept);
}

}  // namespace

Outcome Operations::hand(Request& request) {
    auto message = HandMessage::decode(request.meta);
    if (!request.local || !request.header.has(kDescriptor)) return Answer(not_local());
    if (!message.ok()) return Answer(message.take_status());
    // Like a put at its last owner it waits for nobody but our own store.
    return Blocking{0, [this, message = *message, kept = request.kept](Body& body) -> Answer {
                        auto& first = message.files.front().key;
                        Wait wait(incidents_, "hand", first, "", body.deadline(), body.arrived());
                        auto files =
                            handing_.hand(holder_of(*kept, handing_), message, body.deadline());
                        wait.ended(files);
                        if (!files.ok()) return files.take_status();
                        fault_point(Stage::Hand);
                        Answer answer;
                        for (Fd& file : *files) {
                            answer.meta.push_back(file ? 1 : 0);
                            if (file) answer.descriptors.push_back(std::move(file));
                        }
                        if (!answer.descriptors.empty()) answer.flags = kDescriptor;
                        return answer;
                    }};
}

Outcome Operations::seal(Request& request) {
    auto message = PutMessage::decode(request.meta);
    std::size_t lane = message.ok() ? message->onward.size() : 0;
    bool local = request.local;
    return Blocking{
        lane,
        [this, message = std::move(message), local, kept = request.kept](Body& body) -> Answer {
            auto sums = body.read_message();
            if (!sums.ok()) return sums.take_status();
            if (!message.ok()) return message.status();
            if (!local) return not_local();
            Wait wait(incidents_, "seal", message->key, "", body.deadline(), body.arrived());
            Answer answer = seal(*message, *kept, *sums, body);
            wait.ended(answer.status, body.size() * (kChunk / sizeof(std::uint32_t)));
            return answer;
        }};
}

Answer Operations::seal(const PutMessage& message, std::unique_ptr<Kept>& kept,
                        const std::string& sums, const Body& body) {
    // Whatever becomes of it, its file is used up.
    auto writer = handing_.take(holder_of(kept, handing_), message.key);
    if (!writer.ok()) return writer.take_status();
    if (Status stale = fence(message.key, message.owners, message.without, message.copies(), true);
        !stale.ok())
        return stale;
    auto chunks = decode_checksums(sums);
    if (!chunks.ok()) return chunks.take_status();
    auto file = handing_.seal(*writer, message, std::move(*chunks));
    if (!file.ok()) return file.take_status();
    if (Status status = writer->compare_overlapped(); !status.ok()) return status;
    fault_point(Stage::Seal);
    auto next = ask_next(message, writer->size(), body);
    if (!next.ok()) return next.take_status();
    for (std::uint64_t at = 0; *next && at < writer->size(); at += kPiece) {
        fault_point(Stage::Chain);
        auto size = std::min(kPiece, writer->size() - at);
        if (Status status = (*next)->send_body(*file, at, size); !status.ok()) return status;
    }
    return finish(message, *writer, *next, writer->crc(), body);
}

}  // namespace holdfast
