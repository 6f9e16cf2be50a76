#include "rpc/body.hpp"

#include <algorithm>
#include <cstring>

#include "base/crc32c.hpp"
#include "rpc/wire.hpp"

namespace holdfast {
namespace {

constexpr std::size_t kPiece = 256 << 10;
constexpr auto kMostDeadline = std::chrono::seconds(120);

Duration stall_of(const Header& request) {
    return std::clamp<Duration>(std::chrono::milliseconds(request.deadline_ms),
                                std::chrono::milliseconds(10), kMostDeadline);
}

}  // namespace

Body::Body(Channel channel, const Header& request, std::string ahead, TimePoint arrived)
    : channel_(std::move(channel)),
      request_(request),
      ahead_(std::move(ahead)),
      arrived_(arrived),
      left_(request.body_bytes),
      deadline_(stall_of(request)),
      // A sender who asked first sends nothing until it is told to.
      at_end_(request.body_bytes == 0 || request.has(kAskFirst)) {
    deadline_.allow(request.body_bytes);
}

Status Body::go_on() {
    if (!request_.has(kAskFirst)) return {};
    Header header;
    header.op = request_.op;
    header.flags = kReply | kGoOn;
    header.request = request_.request;
    char head[kHeaderBytes];
    encode_header(header, {}, head);
    at_end_ = false;
    return channel_.send(head, sizeof head, deadline_);
}

Result<std::size_t> Body::receive(char* out, std::size_t most) {
    if (ahead_.empty()) return channel_.receive(out, most, deadline_);
    std::size_t size = std::min(most, ahead_.size());
    std::memcpy(out, ahead_.data(), size);
    ahead_.erase(0, size);
    return size;
}

Result<std::size_t> Body::read_some(char* out, std::size_t most) {
    auto got = receive(out, std::min<std::uint64_t>(most, left_));
    if (got.ok()) left_ -= *got;
    if (left_ == 0 && !request_.has(kCrcFollows)) at_end_ = true;
    if (got.ok() && left_ > 0 && Clock::now() >= deadline_.end)
        return Status(Code::DeadlineMissed, "the body arrived too slowly");
    return got;
}

Result<std::string> Body::read_message() {
    if (request_.body_bytes > kMaxMessage)
        return Status(Code::BadInput, "a message of " + std::to_string(request_.body_bytes) +
                                          " bytes; the limit is " + std::to_string(kMaxMessage));
    std::string message;  // grows with what has come, not with what was announced
    while (left_ > 0) {
        std::size_t at = message.size();
        message.resize(at + std::min<std::uint64_t>(left_, kPiece));
        auto got = read_some(message.data() + at, message.size() - at);
        if (!got.ok()) return got.take_status();
        message.resize(at + *got);
    }
    auto crc = expected_crc();
    if (!crc.ok()) return crc.take_status();
    if (*crc != crc32c(0, message.data(), message.size()))
        return Status(Code::Damaged, "the message does not match its checksum");
    return message;
}

Result<std::uint32_t> Body::expected_crc() {
    if (!request_.has(kCrcFollows)) return request_.body_crc;
    char trailer[kTrailerBytes];
    for (std::size_t at = 0; at < sizeof trailer;) {
        auto got = receive(trailer + at, sizeof trailer - at);
        if (!got.ok()) return got.take_status();
        at += *got;
    }
    at_end_ = true;
    return MetaReader({trailer, sizeof trailer}).number<std::uint32_t>();
}

}  // namespace holdfast
