#include "agent/agent_client.hpp"

#include <algorithm>

#include "base/crc32c.hpp"

namespace holdfast {
namespace {

constexpr std::size_t kPiece = 256 << 10;

}  // namespace

Status AgentClient::put(const std::vector<std::string>& addresses,
                        const std::vector<std::uint64_t>& owners, const std::string& key,
                        std::string_view data, Tier tier, Duration deadline) {
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
        client_.ask(addresses.front(), question, deadline * static_cast<int>(owners.size()));
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

Result<Exchange> AgentClient::get(const std::string& address, const GetMessage& message,
                                  bool descriptor, Duration deadline) {
    std::uint16_t flags = descriptor ? kDescriptor : 0;
    return ask_watched(address, {.op = Op::Get, .flags = flags, .meta = message.encode()},
                       deadline);
}

Result<Exchange> AgentClient::ask_watched(const std::string& address, Question question,
                                          Duration deadline) {
    question.silence = kLongestSilence;
    question.head_only = true;
    question.lives = [&] {
        return client_
            .ask(address, {.op = Op::Probe, .meta = ProbeMessage().encode()}, kLongestSilence)
            .ok();
    };
    return client_.ask(address, question, deadline);
}

Result<Exchange> AgentClient::read(const std::string& address, const FileOrder& order,
                                   Duration deadline) {
    return ask_watched(address, {.op = Op::Read, .meta = order.encode()}, deadline);
}

Result<Exchange> AgentClient::open_file(const std::string& address, const FileOrder& order,
                                        Duration deadline) {
    return client_.ask(address, {.op = Op::Open, .flags = kDescriptor, .meta = order.encode()},
                       deadline);
}

Result<Attributes> AgentClient::attributes(const std::string& address, const FileOrder& order,
                                           Duration deadline) {
    auto exchange = client_.ask(address, {.op = Op::Attributes, .meta = order.encode()}, deadline);
    if (!exchange.ok()) return exchange.take_status();
    return Attributes::decode(exchange->meta());
}

Result<Attributes> AgentClient::warm(const std::string& address, const FileOrder& order,
                                     Duration deadline) {
    auto exchange = client_.ask(address, {.op = Op::Warm, .meta = order.encode()}, deadline);
    if (!exchange.ok()) return exchange.take_status();
    return Attributes::decode(exchange->meta());
}

Result<ObjectInfo> AgentClient::ask_info(Op op, const std::string& address, std::string meta,
                                         Duration deadline) {
    auto exchange = client_.ask(address, {.op = op, .meta = std::move(meta)}, deadline);
    if (!exchange.ok()) return exchange.take_status();
    return ObjectInfo::decode(exchange->meta());
}

Result<ObjectInfo> AgentClient::stat(const std::string& address, const std::string& key,
                                     Duration deadline, std::uint64_t wanted) {
    return ask_info(Op::Stat, address, KeyMessage{key, wanted}.encode(), deadline);
}

Result<ObjectInfo> AgentClient::verify(const std::string& address, const std::string& key,
                                       Duration deadline) {
    return ask_info(Op::Verify, address, KeyMessage{key}.encode(), deadline);
}

Result<ListReply> AgentClient::list(const std::string& address, const ListMessage& message,
                                    Duration deadline) {
    auto text = client_.ask_text(address, {.op = Op::List, .meta = message.encode()}, deadline);
    if (!text.ok()) return text.take_status();
    return ListReply::decode(*text);
}

Status AgentClient::drop(const std::string& address, const DropMessage& message,
                         Duration deadline) {
    auto exchange = client_.ask(address, {.op = Op::Drop, .meta = message.encode()}, deadline);
    return exchange.ok() ? Status() : exchange.take_status();
}

Result<std::string> AgentClient::call(const std::string& address, const CallMessage& message,
                                      std::string_view body, Duration deadline) {
    return client_.ask_text(address, {.op = Op::Call, .meta = message.encode(), .body = body},
                            deadline);
}

Result<PendingCall> AgentClient::wait(const std::string& address, const WaitMessage& message,
                                      Duration silence) {
    std::string meta = message.encode();
    if (meta.size() > kMaxMeta)
        return Status(Code::BadInput, "a message of " + std::to_string(message.message.size()) +
                                          " bytes is too long for a call that waits; with its " +
                                          "names it can have about " + std::to_string(kMaxMeta));
    return client_.wait(address, meta, message.within, silence);
}

}  // namespace holdfast
