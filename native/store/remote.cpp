#include "store/remote.hpp"

#include <algorithm>

#include "base/crc32c.hpp"

namespace holdfast {
namespace {

constexpr std::size_t kPiece = 256 << 10;

}  // namespace

Status Remote::put(const std::vector<std::string>& addresses,
                   const std::vector<std::uint64_t>& owners, const std::string& key,
                   std::string_view data, Tier tier, Duration patience) {
    if (addresses.empty() || addresses.size() > kMaxCopies || addresses.size() != owners.size())
        return Status(Code::BadInput, "a put needs 1 to " + std::to_string(kMaxCopies) +
                                          " owners and the address of each, not " +
                                          std::to_string(owners.size()) + " and " +
                                          std::to_string(addresses.size()));
    PutMessage message{key, tier, owners, {addresses.begin() + 1, addresses.end()}};
    Question question{.op = Op::Put, .meta = message.encode()};
    bool small = data.size() < kHeapLimit;
    if (small) {
        question.body = data;
    } else {
        question.flags = kAskFirst;
        question.announced_bytes = data.size();
    }
    // Each owner gives those behind it one share less than it has itself.
    auto exchange =
        client_.ask(addresses.front(), question, patience * static_cast<int>(owners.size()));
    if (!exchange.ok()) return exchange.take_status();
    if (small) return {};
    std::uint32_t crc = 0;
    for (std::size_t at = 0; at < data.size(); at += kPiece) {
        auto piece = data.substr(at, kPiece);
        crc = crc32c(crc, piece.data(), piece.size());
        if (Status status = exchange->send_body(piece.data(), piece.size()); !status.ok())
            return status;
    }
    return exchange->finish_body(crc);
}

Result<Exchange> Remote::get(const std::string& address, const GetMessage& message, bool descriptor,
                             Duration patience) {
    std::uint16_t flags = descriptor ? kDescriptor : 0;
    return ask_watched(address, {.op = Op::Get, .flags = flags, .meta = message.encode()},
                       patience);
}

Result<Exchange> Remote::ask_watched(const std::string& address, Question question,
                                     Duration patience) {
    question.silence = kLongestSilence;
    question.head_only = true;
    question.lives = [&] {
        return client_
            .ask(address, {.op = Op::Probe, .meta = ProbeMessage().encode()}, kLongestSilence)
            .ok();
    };
    return client_.ask(address, question, patience);
}

Result<Exchange> Remote::read(const std::string& address, const FileOrder& order,
                              Duration patience) {
    return ask_watched(address, {.op = Op::Read, .meta = order.encode()}, patience);
}

Result<Exchange> Remote::open_file(const std::string& address, const OpenMessage& message,
                                   Duration patience) {
    return client_.ask(address, {.op = Op::Open, .flags = kDescriptor, .meta = message.encode()},
                       patience);
}

Result<Attributes> Remote::attributes(const std::string& address, const FileOrder& order,
                                      Duration patience) {
    auto exchange = client_.ask(address, {.op = Op::Attributes, .meta = order.encode()}, patience);
    if (!exchange.ok()) return exchange.take_status();
    return Attributes::decode(exchange->meta());
}

Result<Attributes> Remote::warm(const std::string& address, const FileOrder& order,
                                Duration patience) {
    auto exchange = client_.ask(address, {.op = Op::Warm, .meta = order.encode()}, patience);
    if (!exchange.ok()) return exchange.take_status();
    return Attributes::decode(exchange->meta());
}

Result<Exchange> Remote::tree(const std::string& address, const TreeOrder& order, Duration patience,
                              Duration silence) {
    Question question{
        .op = Op::Tree, .flags = kDescriptor, .meta = order.encode(), .silence = silence};
    question.lives = [&] {
        return client_.ask(address, {.op = Op::Probe, .meta = ProbeMessage().encode()}, silence)
            .ok();
    };
    return client_.ask(address, question, patience);
}

Result<ObjectInfo> Remote::ask_info(Op op, const std::string& address, std::string meta,
                                    Duration patience) {
    auto exchange = client_.ask(address, {.op = op, .meta = std::move(meta)}, patience);
    if (!exchange.ok()) return exchange.take_status();
    return ObjectInfo::decode(exchange->meta());
}

Result<ObjectInfo> Remote::pull(const std::string& address, const PullMessage& message,
                                Duration patience) {
    return ask_info(Op::Pull, address, message.encode(), patience);
}

Result<ObjectInfo> Remote::stat(const std::string& address, const std::string& key,
                                Duration patience, std::uint64_t wanted) {
    return ask_info(Op::Stat, address, KeyMessage{key, wanted}.encode(), patience);
}

Result<ObjectInfo> Remote::verify(const std::string& address, const std::string& key,
                                  Duration patience) {
    return ask_info(Op::Verify, address, KeyMessage{key}.encode(), patience);
}

Result<ListReply> Remote::list(const std::string& address, const ListMessage& message,
                               Duration patience) {
    auto text = client_.ask_text(address, {.op = Op::List, .meta = message.encode()}, patience);
    if (!text.ok()) return text.take_status();
    return ListReply::decode(*text);
}

Status Remote::drop(const std::string& address, const DropMessage& message, Duration patience) {
    auto exchange = client_.ask(address, {.op = Op::Drop, .meta = message.encode()}, patience);
    return exchange.ok() ? Status() : exchange.take_status();
}

Status Remote::pin(const std::string& address, const PinMessage& message, Duration patience) {
    auto exchange = client_.ask(address, {.op = Op::Pin, .meta = message.encode()}, patience);
    return exchange.ok() ? Status() : exchange.take_status();
}

Result<std::string> Remote::call(const std::string& address, const CallMessage& message,
                                 std::string_view body, Duration patience) {
    return client_.ask_text(address, {.op = Op::Call, .meta = message.encode(), .body = body},
                            patience);
}

}  // namespace holdfast
