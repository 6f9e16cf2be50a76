#include "store/boxes_message.hpp"

#include "rpc/wire.hpp"
#include "store/piece.hpp"

namespace holdfast {
namespace {

Status incomplete(const char* what) {
    return Status(Code::Damaged, std::string("malformed frame: the ") + what + " is incomplete");
}

// Nothing was wanted that could not be there.
Status check(const BoxesMessage::Entry& entry) {
    auto cell = Cell::of(entry.head);
    if (!cell) return Status(Code::BadInput, "'" + entry.head + "' names no variable and cell");
    auto bounds = entry.region.bounds();
    bool steps = true;
    for (std::size_t d = 0; d < entry.region.box.dimensions; ++d)
        steps &= entry.region.steps[d] > 0;
    if (bounds && steps && cell->has(*bounds)) return {};
    return Status(Code::BadInput,
                  "what is wanted of '" + entry.head + "' is nothing, or leaves that cell");
}

}  // namespace

std::string BoxesMessage::encode() const {
    MetaWriter writer;
    writer.number(wanted).number(item);
    for (auto& [head, version, region] : entries) {
        writer.text(head).number(version);
        writer.number(static_cast<std::uint8_t>(region.box.dimensions));
        for (std::size_t d = 0; d < region.box.dimensions; ++d)
            writer.number(region.box.sides[d].start)
                .number(region.box.sides[d].count)
                .number(region.steps[d]);
    }
    return writer.take();
}

Result<BoxesMessage> BoxesMessage::decode(const std::string& body) {
    MetaReader reader(body);
    BoxesMessage message;
    message.wanted = reader.number<std::uint64_t>();
    message.item = reader.number<std::uint32_t>();
    while (!reader.empty() && !reader.failed()) {
        if (message.entries.size() == kMost)
            return Status(Code::BadInput,
                          "at most " + std::to_string(kMost) + " boxes can be asked for at once");
        Entry entry{std::string(reader.text()), reader.number<std::uint64_t>(), {}};
        auto& box = entry.region.box;
        box.dimensions = reader.number<std::uint8_t>();
        if (box.dimensions == 0 || box.dimensions > kMaxDimensions)
            return Status(Code::BadInput, "a box has 1 to " + std::to_string(kMaxDimensions) +
                                              " dimensions, not " + std::to_string(box.dimensions));
        for (std::size_t d = 0; d < box.dimensions; ++d) {
            box.sides[d].start = reader.number<std::uint32_t>();
            box.sides[d].count = reader.number<std::uint32_t>();
            entry.region.steps[d] = reader.number<std::uint32_t>();
        }
        message.entries.push_back(std::move(entry));
    }
    if (!reader.whole() || message.entries.empty()) return incomplete("list of boxes");
    if (message.item == 0) return Status(Code::BadInput, "an element has at least a byte");
    for (auto& entry : message.entries)
        if (Status status = check(entry); !status.ok()) return status;
    return message;
}

std::string BoxesReply::encode() const {
    MetaWriter writer;
    for (auto& [kind, pieces, here] : entries) {
        writer.number(static_cast<std::uint8_t>(kind));
        if (kind == Kind::Absent) writer.number(here);
        if (kind != Kind::Pieces) continue;
        writer.number(static_cast<std::uint8_t>(pieces.size()));
        for (auto& [box, size] : pieces) {
            writer.number(static_cast<std::uint8_t>(box.dimensions));
            for (std::size_t d = 0; d < box.dimensions; ++d)
                writer.number(box.sides[d].start).number(box.sides[d].count);
            writer.number(size);
        }
    }
    return writer.take();
}

Result<BoxesReply> BoxesReply::decode(const std::string& meta) {
    MetaReader reader(meta);
    BoxesReply reply;
    bool bad = false;
    while (!reader.empty() && !reader.failed()) {
        auto kind = reader.number<std::uint8_t>();
        bad |= kind > static_cast<std::uint8_t>(Kind::Pieces);
        Entry entry{static_cast<Kind>(kind)};
        if (entry.kind == Kind::Absent) entry.here = reader.number<std::uint64_t>();
        if (entry.kind == Kind::Pieces) entry.pieces.resize(reader.number<std::uint8_t>());
        for (auto& [box, size] : entry.pieces) {
            box.dimensions = reader.number<std::uint8_t>();
            bad |= box.dimensions > kMaxDimensions;
            for (std::size_t d = 0; d < box.dimensions && !bad; ++d) {
                box.sides[d].start = reader.number<std::uint32_t>();
                box.sides[d].count = reader.number<std::uint32_t>();
            }
            size = reader.number<std::uint64_t>();
        }
        reply.entries.push_back(std::move(entry));
    }
    if (!reader.whole() || bad) return incomplete("reply");
    return reply;
}

std::size_t BoxesReply::pieces() const {
    std::size_t count = 0;
    for (auto& entry : entries) count += entry.pieces.size();
    return count;
}

}  // namespace holdfast
