#include "store/messages.hpp"

#include <algorithm>
#include <set>
#include <string_view>

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

void write_members(MetaWriter& writer, const std::vector<std::uint64_t>& members) {
    writer.number(static_cast<std::uint16_t>(members.size()));
    for (auto member : members) writer.number(member);
}

Status read_members(MetaReader& reader, std::vector<std::uint64_t>& members) {
    auto count = reader.number<std::uint16_t>();
    if (reader.failed()) return incomplete("list of owners");
    if (count > kMaxCopies)
        return Status(Code::BadInput, "a list has at most " + std::to_string(kMaxCopies) +
                                          " owners, not " + std::to_string(count));
    members.resize(count);
    for (auto member = members.begin(); member != members.end(); ++member) {
        *member = reader.number<std::uint64_t>();
        if (!reader.failed() && std::find(members.begin(), member, *member) != member)
            return Status(Code::BadInput, "an owner is named twice");
    }
    return {};
}

// The owners of an object, and those that are left out.
template <typename Message>
void write_owners(MetaWriter& writer, const Message& message) {
    write_members(writer, message.owners);
    write_members(writer, message.without);
}

template <typename Message>
Status read_owners(MetaReader& reader, Message& message) {
    if (Status status = read_members(reader, message.owners); !status.ok()) return status;
    if (message.owners.empty())
        return Status(Code::BadInput,
                      "an object can have 1 to " + std::to_string(kMaxCopies) + " owners, not 0");
    return read_members(reader, message.without);
}

Status check_copies(std::size_t owners, std::uint16_t copies) {
    if (copies == 0 || (copies >= owners && copies <= kMaxCopies)) return {};
    return Status(Code::BadInput, "of an object with " + std::to_string(owners) + " owners " +
                                      std::to_string(owners) + " to " + std::to_string(kMaxCopies) +
                                      " copies can be wanted, not " + std::to_string(copies));
}

void write_header(MetaWriter& writer, const ObjectHeader& header) {
    writer.text(header.bytes).number(header.crc);
}

ObjectHeader read_header(MetaReader& reader) {
    ObjectHeader header;
    header.bytes = reader.text();
    header.crc = reader.number<std::uint32_t>();
    return header;
}

Status check_header(const ObjectHeader& header, const std::string& key) {
    if (header.bytes.size() > kMaxHeader)
        return Status(Code::BadInput, "a header can have at most " + std::to_string(kMaxHeader) +
                                          " bytes, not " + std::to_string(header.bytes.size()));
    if (header.sound()) return {};
    return Status(Code::Damaged, "the header of '" + key + "' does not match its checksum");
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
    write_owners(writer, *this);
    writer.number(up_to);
    write_header(writer, header);
    for (auto& address : onward) writer.text(address);
    return writer.take();
}

Result<PutMessage> PutMessage::decode(const std::string& meta) {
    MetaReader reader(meta);
    PutMessage message;
    bool bad = false;
    message.key = reader.text();
    message.tier = read_tier(reader, bad);
    if (Status status = read_owners(reader, message); !status.ok()) return status;
    message.up_to = reader.number<std::uint16_t>();
    message.header = read_header(reader);
    while (!reader.empty() && !reader.failed()) message.onward.emplace_back(reader.text());
    if (message.onward.size() >= message.owners.size())
        return Status(Code::BadInput, std::to_string(message.onward.size() + 1) +
                                          " addresses for " +
                                          std::to_string(message.owners.size()) + " owners");
    auto whole = checked(std::move(message), reader, bad, "put");
    if (!whole.ok()) return whole;
    Status status = check_copies(whole->owners.size(), whole->up_to);
    if (status.ok()) status = check_header(whole->header, whole->key);
    if (!status.ok()) return status;
    return whole;
}

std::string HandMessage::encode() const {
    MetaWriter writer;
    writer.number(static_cast<std::uint8_t>(tier));
    for (auto& file : files) {
        writer.text(file.key).number(file.size);
        write_header(writer, file.header);
    }
    return writer.take();
}

Result<HandMessage> HandMessage::decode(const std::string& meta) {
    MetaReader reader(meta);
    HandMessage message;
    bool bad = false;
    message.tier = read_tier(reader, bad);
    std::set<std::string_view> keys;
    while (!reader.empty() && !reader.failed()) {
        auto key = reader.text();
        auto size = reader.number<std::uint64_t>();
        message.files.push_back({std::string(key), size, read_header(reader)});
        if (!keys.insert(key).second)
            return Status(Code::BadInput, "'" + std::string(key) + "' is named twice");
    }
    if (!reader.whole() || bad || message.files.empty()) return incomplete("hand");
    if (message.files.size() > kMost)
        return Status(Code::BadInput, "at most " + std::to_string(kMost) +
                                          " files can be handed at once, not " +
                                          std::to_string(message.files.size()));
    for (auto& [key, size, header] : message.files) {
        if (Status status = check_key(key); !status.ok()) return status;
        if (Status status = check_header(header, key); !status.ok()) return status;
        if (size < kLeast || size > kLargest)
            return Status(Code::BadInput, "a file that is handed has " + std::to_string(kLeast) +
                                              " to " + std::to_string(kLargest) + " bytes, not " +
                                              std::to_string(size));
    }
    return message;
}

std::string encode_checksums(const std::vector<std::uint32_t>& chunks) {
    MetaWriter writer;
    for (auto chunk : chunks) writer.number(chunk);
    return writer.take();
}

Result<std::vector<std::uint32_t>> decode_checksums(const std::string& body) {
    MetaReader reader(body);
    std::vector<std::uint32_t> chunks;
    chunks.reserve(body.size() / sizeof(std::uint32_t));
    while (!reader.empty() && !reader.failed()) chunks.push_back(reader.number<std::uint32_t>());
    if (!reader.whole()) return incomplete("list of checksums");
    return chunks;
}

std::string DropMessage::encode() const {
    MetaWriter writer;
    writer.text(key);
    write_owners(writer, *this);
    writer.number(copies);
    return writer.take();
}

Result<DropMessage> DropMessage::decode(const std::string& meta) {
    MetaReader reader(meta);
    DropMessage message;
    message.key = reader.text();
    if (Status status = read_owners(reader, message); !status.ok()) return status;
    message.copies = reader.number<std::uint16_t>();
    auto whole = checked(std::move(message), reader, false, "drop");
    if (!whole.ok()) return whole;
    if (Status status = check_copies(whole->owners.size(), whole->copies); !status.ok())
        return status;
    return whole;
}

std::string GetMessage::encode() const {
    return MetaWriter().text(key).number(offset).number(length).number(expected_member).take();
}

Result<GetMessage> GetMessage::decode(const std::string& meta) {
    MetaReader reader(meta);
    GetMessage message;
    message.key = reader.text();
    message.offset = reader.number<std::uint64_t>();
    message.length = reader.number<std::uint64_t>();
    message.expected_member = reader.number<std::uint64_t>();
    return checked(std::move(message), reader, false, "get");
}

std::string KeyMessage::encode() const {
    return MetaWriter().text(key).number(expected_member).take();
}

Result<KeyMessage> KeyMessage::decode(const std::string& meta) {
    MetaReader reader(meta);
    KeyMessage message;
    message.key = reader.text();
    message.expected_member = reader.number<std::uint64_t>();
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
        .number(expected_member)
        .number(identity)
        .text(target)
        .text(news)
        .take();
}

Result<ProbeMessage> ProbeMessage::decode(const std::string& meta) {
    MetaReader reader(meta);
    ProbeMessage message;
    message.sender = reader.number<std::uint64_t>();
    message.expected_member = reader.number<std::uint64_t>();
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
    return {object.key,        object.size,   object.crc,   object.tier,
            object.has_source, object.copies, object.least, object.header};
}

namespace {

void write_info(MetaWriter& writer, const ObjectInfo& info) {
    writer.text(info.key)
        .number(info.size)
        .number(info.crc)
        .number(static_cast<std::uint8_t>(info.tier))
        .number(static_cast<std::uint8_t>(info.has_source))
        .number(info.copies)
        .number(info.least);
    write_header(writer, info.header);
}

ObjectInfo read_info(MetaReader& reader, bool& bad) {
    ObjectInfo info;
    info.key = reader.text();
    info.size = reader.number<std::uint64_t>();
    info.crc = reader.number<std::uint32_t>();
    info.tier = read_tier(reader, bad);
    info.has_source = reader.number<std::uint8_t>() != 0;
    info.copies = reader.number<std::uint16_t>();
    info.least = reader.number<std::uint16_t>();
    info.header = read_header(reader);
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
    auto info = checked(read_info(reader, bad), reader, bad, "reply");
    if (!info.ok()) return info;
    if (Status status = check_header(info->header, info->key); !status.ok()) return status;
    return info;
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
    for (auto& info : reply.objects)
        if (Status status = check_header(info.header, info.key); !status.ok()) return status;
    return reply;
}

}  // namespace holdfast
