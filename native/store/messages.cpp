#include "store/messages.hpp"

#include <algorithm>

#include "rpc/wire.hpp"

namespace holdfast {
namespace {

Status incomplete(const char* what) {
    return Status(Code::Damaged, std::string("malformed frame: the ") + what + " is incomplete");
}

Status check_key(const std::string& key) {
    if (key.empty() || key.size() > kMaxKey)
        return Status(Code::BadInput, "a key must have 1 to " + std::to_string(kMaxKey) +
                                          " bytes, not " + std::to_string(key.size()));
    return {};
}

Tier read_tier(MetaReader& reader, bool& bad) {
    auto tier = reader.number<std::uint8_t>();
    bad |= tier >= kTiers;
    return static_cast<Tier>(tier);
}

void write_owners(MetaWriter& writer, const std::vector<std::uint64_t>& owners) {
    writer.number(static_cast<std::uint16_t>(owners.size()));
    for (auto owner : owners) writer.number(owner);
}

Result<std::vector<std::uint64_t>> read_owners(MetaReader& reader) {
    auto count = reader.number<std::uint16_t>();
    if (reader.failed()) return incomplete("list of owners");
    if (count < 1 || count > kMaxCopies)
        return Status(Code::BadInput, "an object can have 1 to " + std::to_string(kMaxCopies) +
                                          " owners, not " + std::to_string(count));
    std::vector<std::uint64_t> owners(count);
    for (auto owner = owners.begin(); owner != owners.end(); ++owner) {
        *owner = reader.number<std::uint64_t>();
        if (!reader.failed() && std::find(owners.begin(), owner, *owner) != owner)
            return Status(Code::BadInput, "an owner is named twice");
    }
    return owners;
}

// The end of every decode(): all was there, nothing more, and the key is one.
template <typename Message>
Result<Message> checked(Message message, const MetaReader& reader, bool bad, const char* what) {
    if (!reader.whole() || bad) return incomplete(what);
    if (Status status = check_key(message.key); !status.ok()) return status;
    return message;
}

}  // namespace

std::string PutMessage::encode() const {
    MetaWriter writer;
    writer.text(key).number(static_cast<std::uint8_t>(tier));
    write_owners(writer, owners);
    for (auto& address : onward) writer.text(address);
    return writer.take();
}

Result<PutMessage> PutMessage::decode(const std::string& meta) {
    MetaReader reader(meta);
    PutMessage message;
    bool bad = false;
    message.key = reader.text();
    message.tier = read_tier(reader, bad);
    auto owners = read_owners(reader);
    if (!owners.ok()) return owners.take_status();
    message.owners = std::move(*owners);
    while (!reader.empty() && !reader.failed()) message.onward.emplace_back(reader.text());
    if (message.onward.size() >= message.owners.size())
        return Status(Code::BadInput, std::to_string(message.onward.size() + 1) +
                                          " addresses for " +
                                          std::to_string(message.owners.size()) + " owners");
    return checked(std::move(message), reader, bad, "put");
}

std::string DropMessage::encode() const {
    MetaWriter writer;
    writer.text(key);
    write_owners(writer, owners);
    return writer.take();
}

Result<DropMessage> DropMessage::decode(const std::string& meta) {
    MetaReader reader(meta);
    DropMessage message;
    message.key = reader.text();
    auto owners = read_owners(reader);
    if (!owners.ok()) return owners.take_status();
    message.owners = std::move(*owners);
    return checked(std::move(message), reader, false, "drop");
}

std::string GetMessage::encode() const {
    return MetaWriter().text(key).number(offset).number(length).number(wanted).take();
}

Result<GetMessage> GetMessage::decode(const std::string& meta) {
    MetaReader reader(meta);
    GetMessage message;
    message.key = reader.text();
    message.offset = reader.number<std::uint64_t>();
    message.length = reader.number<std::uint64_t>();
    message.wanted = reader.number<std::uint64_t>();
    return checked(std::move(message), reader, false, "get");
}

std::string KeyMessage::encode() const {
    return MetaWriter().text(key).number(wanted).take();
}

Result<KeyMessage> KeyMessage::decode(const std::string& meta) {
    MetaReader reader(meta);
    KeyMessage message;
    message.key = reader.text();
    message.wanted = reader.number<std::uint64_t>();
    return checked(std::move(message), reader, false, "request");
}

std::string ListMessage::encode() const {
    return MetaWriter().text(prefix).text(after).take();
}

Result<ListMessage> ListMessage::decode(const std::string& meta) {
    MetaReader reader(meta);
    ListMessage message;
    message.prefix = reader.text();
    message.after = reader.text();
    if (!reader.whole()) return incomplete("list");
    return message;
}

std::string CallMessage::encode() const {
    return MetaWriter().text(service).text(method).take();
}

Result<CallMessage> CallMessage::decode(const std::string& meta) {
    MetaReader reader(meta);
    CallMessage message;
    message.service = reader.text();
    message.method = reader.text();
    if (!reader.whole()) return incomplete("call");
    return message;
}

std::string WaitMessage::encode() const {
    return MetaWriter()
        .text(service)
        .text(method)
        .number(static_cast<std::uint32_t>(within.count()))
        .text(message)
        .take();
}

Result<WaitMessage> WaitMessage::decode(const std::string& meta) {
    MetaReader reader(meta);
    WaitMessage message;
    message.service = reader.text();
    message.method = reader.text();
    message.within = std::chrono::milliseconds(reader.number<std::uint32_t>());
    message.message = reader.text();
    if (!reader.whole()) return incomplete("wait");
    return message;
}

std::string ProbeMessage::encode() const {
    return MetaWriter()
        .number(sender)
        .number(wanted)
        .number(identity)
        .text(target)
        .text(news)
        .take();
}

Result<ProbeMessage> ProbeMessage::decode(const std::string& meta) {
    MetaReader reader(meta);
    ProbeMessage message;
    message.sender = reader.number<std::uint64_t>();
    message.wanted = reader.number<std::uint64_t>();
    message.identity = reader.number<std::uint64_t>();
    message.target = reader.text();
    message.news = reader.text();
    if (!reader.whole()) return incomplete("probe");
    return message;
}

std::string ProbeReply::encode() const {
    return MetaWriter().number(identity).number(age_ms).text(news).take();
}

Result<ProbeReply> ProbeReply::decode(const std::string& meta) {
    MetaReader reader(meta);
    ProbeReply reply;
    reply.identity = reader.number<std::uint64_t>();
    reply.age_ms = reader.number<std::uint32_t>();
    reply.news = reader.text();
    if (!reader.whole()) return incomplete("answer to a probe");
    return reply;
}

// ---- replies ---------------------------------------------------------------------------------

ObjectInfo ObjectInfo::of(const Object& object) {
    return {object.key, object.size, object.crc, object.tier, object.has_source, object.copies};
}

namespace {

void write_info(MetaWriter& writer, const ObjectInfo& info) {
    writer.text(info.key)
        .number(info.size)
        .number(info.crc)
        .number(static_cast<std::uint8_t>(info.tier))
        .number(static_cast<std::uint8_t>(info.has_source))
        .number(info.copies);
}

ObjectInfo read_info(MetaReader& reader, bool& bad) {
    ObjectInfo info;
    info.key = reader.text();
    info.size = reader.number<std::uint64_t>();
    info.crc = reader.number<std::uint32_t>();
    info.tier = read_tier(reader, bad);
    info.has_source = reader.number<std::uint8_t>() != 0;
    info.copies = reader.number<std::uint16_t>();
    return info;
}

}  // namespace

std::string ObjectInfo::encode() const {
    MetaWriter writer;
    write_info(writer, *this);
    return writer.take();
}

Result<ObjectInfo> ObjectInfo::decode(const std::string& meta) {
    MetaReader reader(meta);
    bool bad = false;
    ObjectInfo info = read_info(reader, bad);
    return checked(std::move(info), reader, bad, "reply");
}

std::string ListReply::encode() const {
    MetaWriter writer;
    writer.number(static_cast<std::uint8_t>(more));
    for (auto& info : objects) write_info(writer, info);
    return writer.take();
}

Result<ListReply> ListReply::decode(const std::string& body) {
    MetaReader reader(body);
    ListReply reply;
    bool bad = false;
    reply.more = reader.number<std::uint8_t>() != 0;
    while (!reader.empty() && !reader.failed()) reply.objects.push_back(read_info(reader, bad));
    if (!reader.whole() || bad) return incomplete("list");
    return reply;
}

}  // namespace holdfast
