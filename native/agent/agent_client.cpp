#include "agent/agent_client.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/crc32c.hpp"

namespace holdfast {
namespace {

constexpr std::size_t kPiece = 256 << 10;
// What is written to a file at once gets pages of that size, and is still in the cache after its
// checksums were taken.
constexpr std::size_t kWritten = 1 << 20;

// A larger file would cost the program a signal, which may end it.
bool may_be_so_large(std::size_t size) {
    rlimit limit{};
    return ::getrlimit(RLIMIT_FSIZE, &limit) != 0 || size <= limit.rlim_cur;
}

Status write_at(const Fd& file, std::string_view piece, std::size_t offset) {
    // Writing to memory is hardly ever cut short by a signal, so we look for one ourselves.
    if (interrupted != nullptr && interrupted())
        return Status(Code::HoldfastError, "interrupted by a signal");
    while (!piece.empty()) {
        auto put = ::pwrite(file.get(), piece.data(), piece.size(), static_cast<off_t>(offset));
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) return system_failure(Code::Full, "cannot write the file", errno);
        offset += static_cast<std::size_t>(put);
        piece.remove_prefix(static_cast<std::size_t>(put));
    }
    return {};
}

}  // namespace

Status AgentClient::put(const std::vector<std::string>& addresses,
                        const std::vector<std::uint64_t>& owners, const std::string& key,
                        std::string_view data, Tier tier, Duration deadline, PutOptions options) {
    if (addresses.empty() || addresses.size() > kMaxCopies || addresses.size() != owners.size())
        return Status(Code::BadInput, "a put needs 1 to " + std::to_string(kMaxCopies) +
                                          " owners and the address of each, not " +
                                          std::to_string(owners.size()) + " and " +
                                          std::to_string(addresses.size()));
    PutMessage message{.key = key,
                       .tier = tier,
                       .owners = owners,
                       .onward = {addresses.begin() + 1, addresses.end()},
                       .without = std::move(options.without),
                       .header = std::move(options.header),
                       .up_to = options.up_to};
    // Each owner gives those behind it one share less than it has itself.
    deadline *= static_cast<int>(owners.size());
    const std::string& first = addresses.front();
    if (options.hand && may_hand(first, data.size()))
        if (auto done = put_by_hand(first, message, data, deadline)) return std::move(*done);
    return put_through(first, message, data, deadline);
}

Status AgentClient::put_through(const std::string& address, const PutMessage& message,
                                std::string_view data, Duration deadline) {
    Question question{.op = Op::Put, .meta = message.encode()};
    bool small = data.size() < kHeapLimit;
    if (small) {
        question.body = data;
    } else {
        question.flags = kAskFirst;
        question.announced_bytes = data.size();
    }
    auto exchange = connections_.ask(address, question, deadline);
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

bool AgentClient::may_hand(const std::string& address, std::size_t size) const {
    return address.starts_with("unix:") && size >= HandMessage::kLeast &&
           size <= HandMessage::kLargest && may_be_so_large(size) &&
           Clock::now() >= hands_from_.load();
}

std::optional<Status> AgentClient::put_by_hand(const std::string& address,
                                               const PutMessage& message, std::string_view data,
                                               Duration deadline) {
    HandMessage wanted{message.tier, {{message.key, data.size(), message.header}}};
    auto exchange = connections_.ask(
        address, {.op = Op::Hand, .flags = kDescriptor, .meta = wanted.encode()}, deadline);
    // We may lack a free number for the descriptor: then the next try must not take the key by
    // asking for another. If somebody else has the key, put says so as well.
    if (!exchange.ok() && exchange.status().code() == Code::Busy) {
        hands_from_ = Clock::now() + kWithoutHand;
        return {};
    }
    if (!exchange.ok()) return exchange.take_status();
    Fd file = exchange->take_descriptor();
    if (!file) return {};  // it is stored already: the agent compares
    connections_.keep(file);
    // Which lives no longer than this, whatever happens.
    struct Closing {
        ConnectionPool& pool;
        Fd& file;
        ~Closing() { close(); }
        void close() {
            if (file) pool.close(std::move(file));
        }
    } closing{connections_, file};
    std::vector<std::uint32_t> chunks;
    chunks.reserve((data.size() + kChunk - 1) / kChunk);
    for (std::size_t at = 0; at < data.size(); at += kWritten) {
        auto piece = data.substr(at, kWritten);
        for (std::size_t of = 0; of < piece.size(); of += kChunk) {
            auto chunk = piece.substr(of, kChunk);
            chunks.push_back(crc32c(0, chunk.data(), chunk.size()));
        }
        if (Status failed = write_at(file, piece, at); !failed.ok()) {
            // A seal without checksums is refused, and gives room and key back before that.
            closing.close();
            Question refused{.op = Op::Seal, .meta = message.encode()};
            (void)exchange->ask_again(refused);
            // The agent will meet the same trouble, and knows what follows from it.
            if (failed.code() == Code::Full) return {};
            return failed;
        }
    }
    closing.close();
    std::string sums = encode_checksums(chunks);
    Question seal{.op = Op::Seal, .meta = message.encode(), .body = sums};
    // Our agent may have to copy them, and sends them to the others.
    seal.moved_bytes = data.size() * message.owners.size();
    watch(address, seal);
    Status status = exchange->ask_again(seal);
    // For a copy it needs the room twice, and through the socket once.
    if (status.code() == Code::Full) return {};
    return status;
}

Result<Exchange> AgentClient::get(const std::string& address, const GetMessage& message,
                                  bool descriptor, Duration deadline) {
    std::uint16_t flags = descriptor ? kDescriptor : 0;
    return ask_watched(address, {.op = Op::Get, .flags = flags, .meta = message.encode()},
                       deadline);
}

Result<AgentClient::Boxes> AgentClient::boxes(const std::string& address,
                                              const BoxesMessage& message, bool local,
                                              Duration deadline) {
    if (message.entries.empty() || message.entries.size() > BoxesMessage::kMost)
        return Status(Code::BadInput, "1 to " + std::to_string(BoxesMessage::kMost) +
                                          " boxes can be asked for at once, not " +
                                          std::to_string(message.entries.size()));
    std::string body = message.encode();
    Question question{.op = Op::Boxes, .meta = {}, .body = body};
    if (local) question.flags = kDescriptor;
    auto exchange = ask_watched(address, std::move(question), deadline);
    if (!exchange.ok()) return exchange.take_status();
    auto reply = BoxesReply::decode(exchange->meta());
    if (!reply.ok()) return reply.take_status().located(address);
    auto descriptors = exchange->take_descriptors();
    std::uint64_t bytes = 0;
    for (std::size_t i = 0; i < std::min(reply->entries.size(), message.entries.size()); ++i)
        if (reply->entries[i].kind == BoxesReply::Kind::Bytes)
            bytes += message.entries[i].region.box.volume().value_or(0) * message.item;
    if (reply->entries.size() != message.entries.size() || reply->pieces() != descriptors.size() ||
        bytes != exchange->reply().body_bytes)
        return Status(Code::Damaged, "the reply does not fit what was asked for", address);
    return Boxes{std::move(*exchange), std::move(reply->entries), std::move(descriptors)};
}

Result<Exchange> AgentClient::ask_watched(const std::string& address, Question question,
                                          Duration deadline) {
    watch(address, question);
    return connections_.ask(address, question, deadline);
}

void AgentClient::watch(const std::string& address, Question& question) {
    question.silence = kLongestSilence;
    question.head_only = true;
    question.lives = [this, &address] {
        return connections_
            .ask(address, {.op = Op::Probe, .meta = ProbeMessage().encode()}, kLongestSilence)
            .ok();
    };
}

Result<Exchange> AgentClient::read(const std::string& address, const FileOrder& order,
                                   Duration deadline) {
    return ask_watched(address, {.op = Op::Read, .meta = order.encode()}, deadline);
}

Result<Exchange> AgentClient::open_file(const std::string& address, const FileOrder& order,
                                        Duration deadline) {
    return connections_.ask(address, {.op = Op::Open, .flags = kDescriptor, .meta = order.encode()},
                            deadline);
}

Result<Attributes> AgentClient::attributes(const std::string& address, const FileOrder& order,
                                           Duration deadline) {
    auto exchange =
        connections_.ask(address, {.op = Op::Attributes, .meta = order.encode()}, deadline);
    if (!exchange.ok()) return exchange.take_status();
    return Attributes::decode(exchange->meta());
}

Result<Attributes> AgentClient::warm(const std::string& address, const FileOrder& order,
                                     Duration deadline) {
    auto exchange = connections_.ask(address, {.op = Op::Warm, .meta = order.encode()}, deadline);
    if (!exchange.ok()) return exchange.take_status();
    return Attributes::decode(exchange->meta());
}

Result<ObjectInfo> AgentClient::ask_info(Op op, const std::string& address, std::string meta,
                                         Duration deadline) {
    auto exchange = connections_.ask(address, {.op = op, .meta = std::move(meta)}, deadline);
    if (!exchange.ok()) return exchange.take_status();
    return ObjectInfo::decode(exchange->meta());
}

Result<ObjectInfo> AgentClient::stat(const std::string& address, const std::string& key,
                                     Duration deadline, std::uint64_t expected_member) {
    return ask_info(Op::Stat, address, KeyMessage{key, expected_member}.encode(), deadline);
}

Result<ObjectInfo> AgentClient::verify(const std::string& address, const std::string& key,
                                       Duration deadline) {
    return ask_info(Op::Verify, address, KeyMessage{key}.encode(), deadline);
}

Result<ListReply> AgentClient::list(const std::string& address, const ListMessage& message,
                                    Duration deadline) {
    auto text =
        connections_.ask_text(address, {.op = Op::List, .meta = message.encode()}, deadline);
    if (!text.ok()) return text.take_status();
    return ListReply::decode(*text);
}

Status AgentClient::drop(const std::string& address, const DropMessage& message,
                         Duration deadline) {
    auto exchange = connections_.ask(address, {.op = Op::Drop, .meta = message.encode()}, deadline);
    return exchange.ok() ? Status() : exchange.take_status();
}

Status AgentClient::drop_below(const std::string& address, const Watermark& mark,
                               Duration deadline) {
    if (Status status = mark.check(); !status.ok()) return status;
    auto exchange =
        connections_.ask(address, {.op = Op::DropBelow, .meta = mark.encode()}, deadline);
    return exchange.ok() ? Status() : exchange.take_status();
}

Result<std::string> AgentClient::call(const std::string& address, const CallMessage& message,
                                      std::string_view body, Duration deadline) {
    return connections_.ask_text(address, {.op = Op::Call, .meta = message.encode(), .body = body},
                                 deadline);
}

Result<PendingCall> AgentClient::wait(const std::string& address, const WaitMessage& message,
                                      Duration silence) {
    std::string meta = message.encode();
    if (meta.size() > kMaxMeta)
        return Status(Code::BadInput, "a message of " + std::to_string(message.message.size()) +
                                          " bytes is too long for a call that waits; with its " +
                                          "names it can have about " + std::to_string(kMaxMeta));
    return connections_.wait(address, meta, message.within, silence);
}

}  // namespace holdfast
