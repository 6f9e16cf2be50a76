#include "rpc/connection.hpp"

#include <fcntl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/crc32c.hpp"
#include "base/fault.hpp"
#include "base/passing.hpp"
#include "rpc/body.hpp"
#include "rpc/wire.hpp"

namespace holdfast {
namespace {

constexpr std::size_t kInput = 4 << 10;
constexpr std::size_t kWindow = 256 << 10;
// What one connection may send before others have their turn.
constexpr std::size_t kTurn = 1 << 20;
// What may wait for a peer that has read nothing for as long as it bears silence itself, and for
// any peer, before one more answer: many may be due at once, before it had the time to read one.
constexpr std::size_t kMostUnread = 4 << 20;
constexpr std::size_t kMostQueued = 64 << 20;

bool would_block(int error) {
    return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

std::uint64_t size_of(const Answer& answer) {
    if (auto* heap = std::get_if<HeapSlice>(&answer.body)) return heap->size;
    if (auto* file = std::get_if<FileSlice>(&answer.body)) return file->size;
    if (auto* grows = std::get_if<std::shared_ptr<Growing>>(&answer.body))
        return (*grows)->file().size;
    return 0;
}

// Of a reply that reports a failure.
std::string meta_of(const Status& failure) {
    std::string_view message = failure.message();
    return MetaWriter().text(failure.at()).text(message.substr(0, kMaxMeta / 2)).take();
}

}  // namespace

Connection::Connection(Fd fd, bool local, std::string peer, std::string_view job_key,
                       std::function<void()> proved)
    : fd_(std::move(fd)),
      local_(local),
      peer_(std::move(peer)),
      job_key_(job_key),
      proved_(std::move(proved)),
      trusted_(local),
      input_(kInput, '\0') {
    if (trusted_) return;
    nonce_ = fresh_nonce();
    output_.emplace(Output());
    output_->head.resize(kChallengeBytes);
    encode_challenge(nonce_, output_->head.data());
}

// ---- reading ---------------------------------------------------------------------------------

void Connection::consume(std::size_t bytes) {
    std::memmove(input_.data(), input_.data() + bytes, input_end_ - bytes);
    input_end_ -= bytes;
}

Result<bool> Connection::check_answer() {
    if (input_end_ < kAnswerBytes) return false;
    Nonce client;
    Digest proof;
    std::memcpy(client.data(), input_.data(), client.size());
    std::memcpy(proof.data(), input_.data() + client.size(), proof.size());
    auto expected = client_proof(job_key_, nonce_, client);
    if (!expected.ok()) return expected.take_status();
    bool trusted = equal_digests(proof, *expected);
    auto ours = trusted ? server_proof(job_key_, nonce_, client) : Digest{};
    if (!ours.ok()) return ours.take_status();
    if (trusted) proved_();  // before it may know: what it asks for next counts on it
    // 32 bytes into the empty buffer of a new connection: sent whole or not at all.
    if (::send(fd_.get(), ours->data(), ours->size(), MSG_NOSIGNAL) !=
        static_cast<ssize_t>(ours->size()))
        return Status(Code::Unavailable, "it disconnected during the handshake");
    if (!trusted) return Status(Code::Refused, "it does not have the job key");
    consume(kAnswerBytes);
    trusted_ = true;
    return true;
}

Result<Connection::Read> Connection::read(Request& request) {
    for (;;) {
        if (!trusted_) {
            auto checked = check_answer();
            if (!checked.ok()) return checked.take_status();
        }
        if (trusted_ && input_end_ >= kHeaderBytes) {
            auto header = decode_header(input_.data());
            if (!header.ok()) return header.take_status();
            if (header->has(kReply)) return Status(Code::Damaged, "malformed frame: a reply");
            std::size_t head = kHeaderBytes + header->meta_bytes;
            if (input_end_ >= head) {
                std::string_view meta(input_.data() + kHeaderBytes, header->meta_bytes);
                if (!head_is_whole(input_.data(), meta))
                    return Status(Code::Damaged,
                                  "malformed frame: its head does not match its checksum");
                header_ = *header;
                request = Request{header_, std::string(meta), local_, &kept_};
                consume(head);
                if (input_.size() > kInput && input_end_ <= kInput) {
                    input_.resize(kInput);
                    input_.shrink_to_fit();
                }
                return Read::Request;
            }
            if (input_.size() < head) input_.resize(head);
        }
        if (std::exchange(drained_, false)) return Read::More;
        std::size_t room = input_.size() - input_end_;
        auto got = ::recv(fd_.get(), input_.data() + input_end_, room, 0);
        if (got == 0) {
            // Who leaves during the handshake may have waited long and sent a part of its answer.
            if (trusted_ && input_end_ > 0) return Status(Code::Damaged, "truncated frame");
            return Read::Closed;
        }
        if (got < 0) {
            if (would_block(errno)) return Read::More;
            return Read::Closed;  // reset by a peer that died: nothing to say about it
        }
        // A handshake gets its time once, however slowly its bytes trickle in.
        if (trusted_) last_active_ = Clock::now();
        input_end_ += static_cast<std::size_t>(got);
        drained_ = static_cast<std::size_t>(got) < room;
    }
}

Body Connection::lend_body() {
    if (header_.body_bytes > 0)
        ::fcntl(fd_.get(), F_SETFL, 0);  // blocking, with the time-outs of a Channel
    std::string ahead(input_.data(), input_end_);
    input_end_ = 0;
    return Body(Channel(std::move(fd_)), header_, std::move(ahead), last_active_);
}

void Connection::take_back(Body& body) {
    fd_ = body.take_connection();
    if (header_.body_bytes > 0) ::fcntl(fd_.get(), F_SETFL, O_NONBLOCK);
    const std::string& ahead = body.ahead();
    if (input_.size() < ahead.size()) input_.resize(ahead.size());
    std::memcpy(input_.data(), ahead.data(), ahead.size());
    input_end_ = ahead.size();
    last_active_ = Clock::now();
}

// ---- writing ---------------------------------------------------------------------------------

void Connection::answer(Answer answer) {
    Output& output = output_.emplace(Output());
    Header header;
    header.op = header_.op;
    header.request = header_.request;
    header.flags = static_cast<std::uint16_t>(answer.flags | kReply);
    header.status = answer.status.code();
    if (!answer.status.ok()) {
        answer.meta = meta_of(answer.status);
        answer.body = std::monostate{};
    }
    header.body_bytes = output.body_bytes = size_of(answer);
    if (std::holds_alternative<std::shared_ptr<Growing>>(answer.body))
        header.flags |= kCrcFollows;
    else
        header.body_crc = answer.body_crc;
    output.head.resize(kHeaderBytes);
    encode_header(header, answer.meta, output.head.data());
    output.head += answer.meta;
    output.answer = std::move(answer);
}

ParkedRequests& Connection::parked() {
    if (!parked_) parked_ = std::make_unique<ParkedRequests>();
    return *parked_;
}

bool Connection::reply(std::uint64_t request, const Result<std::string>& result) {
    if (result.ok() && result->size() > kMaxMessage)
        return reply(request, Status(Code::BadInput,
                                     "an answer of " + std::to_string(result->size()) +
                                         " bytes; the limit is " + std::to_string(kMaxMessage)));
    std::size_t unread = queue_.size() - queue_sent_;
    if (unread > kMostQueued ||
        (unread > kMostUnread && Clock::now() - queue_moved_ > parked().silence()))
        return false;
    Header header{.op = Op::Wait, .flags = kReply, .request = request};
    std::string meta;
    if (result.ok()) {
        header.body_bytes = result->size();
        header.body_crc = crc32c(0, result->data(), result->size());
    } else {
        header.status = result.status().code();
        meta = meta_of(result.status());
    }
    prepare_queue();
    std::size_t at = queue_.size();
    queue_.resize(at + kHeaderBytes);
    encode_header(header, meta, queue_.data() + at);
    queue_ += meta;
    if (result.ok()) queue_ += *result;
    return true;
}

void Connection::queue_heartbeat() {
    prepare_queue();
    std::size_t at = queue_.size();
    queue_.resize(at + kHeaderBytes);
    encode_header({.op = Op::Wait, .flags = kReply}, {}, queue_.data() + at);
}

// Before something is added to it.
void Connection::prepare_queue() {
    if (queue_.empty()) queue_moved_ = Clock::now();
    // Not for every answer: what is behind it may be long.
    if (queue_sent_ > queue_.size() / 2) queue_.erase(0, std::exchange(queue_sent_, 0));
}

Connection::Flush Connection::send_queue() {
    std::size_t before = queue_sent_;
    Flush result = send_text(std::string_view(queue_).substr(0, before + kTurn), queue_sent_);
    if (queue_sent_ > before) queue_moved_ = last_active_;
    if (result != Flush::Done) return result;
    if (queue_sent_ < queue_.size()) return Flush::NotWritable;  // it is, but others wait
    queue_sent_ = 0;
    if (queue_.capacity() > kInput)
        std::string().swap(queue_);
    else
        queue_.clear();
    return Flush::Done;
}

Connection::Flush Connection::flush() {
    if (!output_) return send_queue();
    std::size_t quota = kTurn;
    auto& out = *output_;
    if (out.head_sent < out.head.size())
        if (Flush result = send_head(); result != Flush::Done) return result;
    if (out.body_sent < out.body_bytes || !out.window.empty() ||
        std::holds_alternative<std::shared_ptr<Growing>>(out.answer.body))
        if (Flush result = send_body(quota); result != Flush::Done) return result;
    if (Flush result = send_text(out.trailer, out.trailer_sent); result != Flush::Done)
        return result;
    output_.reset();
    return Flush::Done;
}

Connection::Flush Connection::send_head() {
    auto& out = *output_;
    auto* heap = std::get_if<HeapSlice>(&out.answer.body);
    iovec parts[2] = {{out.head.data() + out.head_sent, out.head.size() - out.head_sent}, {}};
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = 1;
    if (heap != nullptr) {  // a small object goes with its head
        parts[1] = {const_cast<char*>(heap->data), heap->size};
        message.msg_iovlen = 2;
    }
    Passing passing;
    if (!out.answer.descriptors.empty()) passing.attach(message, out.answer.descriptors);
    int more = heap == nullptr && out.body_bytes > 0 ? MSG_MORE : 0;
    auto sent = ::sendmsg(fd_.get(), &message, MSG_NOSIGNAL | more);
    if (sent < 0) return would_block(errno) ? Flush::NotWritable : Flush::Broken;
    last_active_ = Clock::now();
    out.answer.descriptors.clear();  // they went with the first byte
    std::size_t of_head = std::min(static_cast<std::size_t>(sent), out.head.size() - out.head_sent);
    out.head_sent += of_head;
    out.body_sent += static_cast<std::size_t>(sent) - of_head;
    return out.head_sent < out.head.size() ? Flush::NotWritable : Flush::Done;
}

Connection::Flush Connection::send_body(std::size_t& quota) {
    auto& out = *output_;
    if (auto* heap = std::get_if<HeapSlice>(&out.answer.body)) {
        auto sent =
            ::send(fd_.get(), heap->data + out.body_sent, heap->size - out.body_sent, MSG_NOSIGNAL);
        if (sent < 0) return would_block(errno) ? Flush::NotWritable : Flush::Broken;
        last_active_ = Clock::now();
        out.body_sent += static_cast<std::size_t>(sent);
        return out.body_sent < out.body_bytes ? Flush::NotWritable : Flush::Done;
    }
    if (auto* file = std::get_if<FileSlice>(&out.answer.body))
        return send_file(*file, file->size, quota);

    auto& grows = std::get<std::shared_ptr<Growing>>(out.answer.body);
    auto progress = grows->progress();
    // A source that failed midway: the reader must see that the body is not whole.
    if (progress.failed) return Flush::Broken;
    // What stands in the window counts as sent already, though it is not.
    if (out.body_sent < progress.bytes || !out.window.empty())
        if (Flush result = send_file(grows->file(), progress.bytes, quota); result != Flush::Done)
            return result;
    if (!progress.ended) return Flush::NeedsGrowth;
    if (out.trailer.empty()) out.trailer = MetaWriter().number(progress.crc).take();
    return Flush::Done;
}

// Sends up to byte `limit` of the slice.
Connection::Flush Connection::send_file(const FileSlice& slice, std::uint64_t limit,
                                        std::size_t& quota) {
    auto& out = *output_;
    while (out.body_sent < limit || !out.window.empty()) {
        if (quota == 0) return Flush::NotWritable;  // it is, but others wait
        fault_point(Stage::Get);
        if (slice.may_block) {
            if (Flush result = send_window(slice, limit); result != Flush::Done) return result;
            quota -= std::min(quota, kWindow);
            continue;
        }
        auto offset = static_cast<off_t>(slice.offset + out.body_sent);
        auto sent = ::sendfile(fd_.get(), slice.file->get(), &offset,
                               std::min<std::uint64_t>(quota, limit - out.body_sent));
        if (sent < 0) return would_block(errno) ? Flush::NotWritable : Flush::Broken;
        if (sent == 0) return Flush::Broken;  // the file was cut short underneath us
        last_active_ = Clock::now();
        out.body_sent += static_cast<std::size_t>(sent);
        quota -= static_cast<std::size_t>(sent);
    }
    return Flush::Done;
}

Connection::Flush Connection::send_window(const FileSlice& slice, std::uint64_t limit) {
    auto& out = *output_;
    if (out.window.empty() && !out.unreadable && !read_window(slice, limit, RWF_NOWAIT))
        return Flush::NeedsDisk;
    if (out.window.empty() || out.unreadable) return Flush::Broken;
    Flush result = send_text(out.window, out.window_sent);
    if (result != Flush::Done) return result;
    out.window = {};
    out.window_sent = 0;
    return Flush::Done;
}

// False if the bytes are not in memory and `flags` forbids to wait. An empty window afterwards
// means that the file cannot be read to its end.
bool Connection::read_window(const FileSlice& slice, std::uint64_t limit, int flags) {
    auto& out = *output_;
    if (!out.room) out.room.emplace(std::min<std::uint64_t>(kWindow, out.body_bytes));
    iovec part{out.room->data(), std::min<std::uint64_t>(kWindow, limit - out.body_sent)};
    auto got = ::preadv2(slice.file->get(), &part, 1,
                         static_cast<off_t>(slice.offset + out.body_sent), flags);
    int error = got < 0 ? errno : 0;
    out.window = {out.room->data(), got > 0 ? static_cast<std::size_t>(got) : 0};
    if (got < 0 && flags != 0) return false;
    if (error != 0 && slice.unreadable) slice.unreadable(error);
    out.body_sent += out.window.size();
    return true;
}

void Connection::read_from_disk() {
    auto& out = *output_;
    if (auto* file = std::get_if<FileSlice>(&out.answer.body)) {
        read_window(*file, file->size, 0);
    } else {
        auto& grows = std::get<std::shared_ptr<Growing>>(out.answer.body);
        read_window(grows->file(), grows->progress().bytes, 0);
    }
    out.unreadable = out.window.empty();
}

Connection::Flush Connection::send_text(std::string_view text, std::size_t& sent) {
    while (sent < text.size()) {
        auto got = ::send(fd_.get(), text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
        if (got < 0) return would_block(errno) ? Flush::NotWritable : Flush::Broken;
        last_active_ = Clock::now();
        sent += static_cast<std::size_t>(got);
    }
    return Flush::Done;
}

void Connection::wait_for_growth(std::function<void()> wake) {
    auto& out = *output_;
    std::get<std::shared_ptr<Growing>>(out.answer.body)
        ->wake_beyond(out.body_sent, std::move(wake));
}

}  // namespace holdfast
