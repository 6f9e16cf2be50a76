#include "rpc/waiting_connection.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <utility>

#include "base/crc32c.hpp"
#include "rpc/connection_pool.hpp"
#include "rpc/parked_requests.hpp"

namespace holdfast {
namespace {

// How often a thread that signals are meant for looks for them while it waits: one may have come
// just before, or to another thread, and wakes nobody then.
constexpr auto kSignalsEvery = std::chrono::milliseconds(100);

std::atomic<std::uint64_t> forks{0};  // that led to this process

bool handles_signals() {
    return ::syscall(SYS_gettid) == ::getpid();
}

Status after_signal() {
    return interrupted != nullptr && interrupted()
               ? Status(Code::HoldfastError, "interrupted by a signal")
               : Status();
}

}  // namespace

void WaitingConnection::forked() {
    ++forks;
}

WaitingConnection::~WaitingConnection() {
    if (!channel_) return;
    pool_.discard(std::move(*channel_));
    pool_.discard(std::move(waker_));
}

// ---- its life --------------------------------------------------------------------------------

Status WaitingConnection::open(Duration deadline) {
    Lock one(dialling_);
    {
        Lock lock(mutex_);
        if (failure_) return *failure_;
        if (channel_) return {};
    }
    auto waker = pool_.make_waker(address_);
    auto channel =
        waker.ok() ? pool_.dial(address_, deadline, false) : Result<Channel>(waker.take_status());
    Lock lock(mutex_);
    if (channel.ok()) {
        channel_.emplace(std::move(*channel));
        waker_ = std::move(*waker);
        heard_ = idle_since_ = Clock::now();
        return {};
    }
    if (waker.ok()) pool_.discard(std::move(*waker));
    Status status = channel.take_status().located(address_);
    // A signal is one thread's; the next one tries again.
    if (status.code() != Code::HoldfastError) failure_ = status;
    return status;
}

bool WaitingConnection::usable() {
    Lock lock(mutex_);
    receive();  // the other side may have closed it
    return !failure_;
}

void WaitingConnection::retire(Duration longest) {
    Lock lock(mutex_);
    if (channel_ && slots_.empty() && Clock::now() - idle_since_ >= longest)
        fail(Status(Code::Unavailable, "this side closed the connection"));
}

void WaitingConnection::fail(Status reason) {
    if (failure_) return;
    failure_ = std::move(reason).located(address_);
    ::shutdown(channel_->fd(), SHUT_RDWR);  // whoever polls it wakes
    while (!slots_.empty()) finish(*slots_.begin()->second, *failure_);
    close_unless_polled();
}

void WaitingConnection::close_unless_polled() {
    if (polling_ > 0) return;
    pool_.discard(std::move(*channel_));
    channel_.reset();
    pool_.discard(std::move(waker_));
}

void WaitingConnection::poll(short events, bool also_woken, TimePoint until) {
    auto left =
        std::chrono::ceil<std::chrono::milliseconds>(std::max(until - Clock::now(), Duration()));
    pollfd both[] = {{channel_->fd(), events, 0}, {waker_.get(), POLLIN, 0}};
    ++polling_;
    mutex_.unlock();
    ::poll(both, also_woken ? 2 : 1,
           static_cast<int>(std::min<std::int64_t>(left.count(), 60'000)));
    mutex_.lock();
    --polling_;
    eventfd_t ignored;
    if (both[1].revents != 0) ::eventfd_read(waker_.get(), &ignored);
    if (failure_) close_unless_polled();
}

// ---- sending ---------------------------------------------------------------------------------

void WaitingConnection::queue(Op op, std::uint64_t request, std::string_view meta,
                              Duration silence) {
    auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(silence).count();
    Header header{.op = op, .request = request, .deadline_ms = static_cast<std::uint32_t>(ms)};
    char head[kHeaderBytes];
    encode_header(header, meta, head);
    output_.append(head, sizeof head).append(meta);
}

bool WaitingConnection::send_some() {
    while (!output_.empty() && !failure_) {
        auto sent =
            ::send(channel_->fd(), output_.data(), output_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent >= 0) {
            output_.erase(0, static_cast<std::size_t>(sent));
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            return false;
        } else if (errno != EINTR) {
            fail(system_failure(Code::Unavailable, "the connection broke while sending", errno));
        }
    }
    return true;
}

Status WaitingConnection::flush(TimePoint end) {
    while (!send_some()) {
        if (Clock::now() >= end) {  // agents always read: this one is as good as gone
            fail(Status(Code::DeadlineMissed, "no sign of life within the deadline"));
            break;
        }
        const bool for_signals = handles_signals();
        poll(POLLOUT, false, for_signals ? std::min(end, Clock::now() + kSignalsEvery) : end);
        if (!for_signals) continue;
        mutex_.unlock();
        Status status = after_signal();
        mutex_.lock();
        if (!status.ok()) return status;
    }
    return failure_ ? *failure_ : Status();
}

Result<PendingCall> WaitingConnection::send(std::string_view meta, Duration within,
                                            Duration silence) {
    auto slot = std::make_shared<Slot>();
    slot->silence = silence;
    Lock lock(mutex_);
    if (failure_) return *failure_;
    if (slots_.size() >= ParkedRequests::kMost)
        return Status(Code::Busy,
                      "this program has " + std::to_string(slots_.size()) +
                          " calls waiting there, as many as it may; await or cancel some",
                      address_);
    slot->request = next_request_++;
    slot->sent = Clock::now();
    slot->end = slot->sent + within + silence;  // it is the agent that says so before
    slots_.emplace(slot->request, slot);
    queue(Op::Wait, slot->request, meta, silence);
    if (Status status = flush(slot->sent + silence); !status.ok()) {
        withdraw(*slot, status);
        return status;
    }
    return PendingCall(shared_from_this(), std::move(slot));
}

// ---- receiving -------------------------------------------------------------------------------

void WaitingConnection::receive() {
    char piece[16 << 10];
    while (!failure_ && channel_) {
        auto got = ::recv(channel_->fd(), piece, sizeof piece, MSG_DONTWAIT);
        if (got > 0) {
            heard_ = Clock::now();
            input_.append(piece, static_cast<std::size_t>(got));
            take_frames();
        } else if (got == 0) {
            fail(Status(Code::Unavailable, "the other side closed the connection"));
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            return;
        } else if (errno != EINTR) {
            fail(system_failure(Code::Unavailable, "the connection broke while receiving", errno));
        }
    }
}

void WaitingConnection::take_frames() {
    std::size_t at = 0;
    while (!failure_ && input_.size() - at >= kHeaderBytes) {
        const char* head = input_.data() + at;
        auto header = decode_header(head);
        if (!header.ok()) return fail(header.take_status());
        if (header->flags != kReply || header->op != Op::Wait || header->body_bytes > kMaxMessage)
            return fail(Status(Code::Damaged, "malformed frame: no answer to a waiting call"));
        std::size_t size = kHeaderBytes + header->meta_bytes + header->body_bytes;
        if (input_.size() - at < size) break;
        std::string_view meta(head + kHeaderBytes, header->meta_bytes);
        if (!head_is_whole(head, meta))
            return fail(
                Status(Code::Damaged, "malformed frame: its head does not match its checksum"));
        take(*header, meta, {meta.data() + meta.size(), header->body_bytes});
        at += size;
    }
    input_.erase(0, at);
}

void WaitingConnection::take(const Header& header, std::string_view meta, std::string_view body) {
    auto found = slots_.find(header.request);
    if (found == slots_.end()) return;  // a heartbeat, or nobody waits for it any more
    Slot& slot = *found->second;
    if (header.status != Code::Ok) {
        MetaReader reader(meta);
        std::string at(reader.text()), message(reader.text());
        finish(slot, Status(header.status, message, at.empty() ? address_ : at));
    } else if (crc32c(0, body.data(), body.size()) != header.body_crc) {
        finish(slot, Status(Code::Damaged, "the bytes do not match their checksum", address_));
    } else {
        finish(slot, std::string(body));
    }
}

// ---- one call --------------------------------------------------------------------------------

void WaitingConnection::finish(Slot& slot, Result<std::string> result) {
    slot.result.emplace(std::move(result));
    slot.wake.notify_all();
    if (watched_) ::eventfd_write(waker_.get(), 1);  // it may be the one that watches for all
    slots_.erase(slot.request);                      // perhaps the last reference to it
    if (slots_.empty()) idle_since_ = Clock::now();
}

void WaitingConnection::withdraw(Slot& slot, Status reason) {
    if (slot.result) return;
    if (!failure_) {
        queue(Op::Cancel, slot.request, {}, {});
        send_some();
    }
    if (!slot.result) finish(slot, std::move(reason));
}

void WaitingConnection::conclude(Slot& slot) {
    receive();  // before silence is concluded
    auto now = Clock::now();
    if (slot.result || now < std::min(silent_by(slot), slot.end)) return;
    withdraw(slot, Status(Code::DeadlineMissed,
                          now < slot.end ? "no sign of life within the deadline"
                                         : "no answer before the deadline",
                          address_));
}

void WaitingConnection::watch(TimePoint until) {
    watched_ = true;
    poll(output_.empty() ? POLLIN : POLLIN | POLLOUT, true, until);
    watched_ = false;
    send_some();
}

Result<std::string> WaitingConnection::result(Slot& slot) {
    const bool for_signals = handles_signals();
    Lock lock(mutex_);
    auto entry = waiting_.insert(&slot);
    Status status;
    conclude(slot);
    while (!slot.result && status.ok()) {
        auto until = std::min(silent_by(slot), slot.end);
        if (for_signals) until = std::min(until, Clock::now() + kSignalsEvery);
        if (watched_)
            slot.wake.wait_until(lock, until);
        else
            watch(until);
        conclude(slot);
        if (slot.result || !for_signals) continue;
        lock.unlock();
        status = after_signal();
        lock.lock();
    }
    waiting_.erase(entry);
    if (!watched_ && !waiting_.empty()) (*waiting_.begin())->wake.notify_all();
    // A signal's exception has to be raised, whatever came meanwhile.
    return status.ok() ? *slot.result : Result<std::string>(std::move(status));
}

bool WaitingConnection::done(Slot& slot) {
    Lock lock(mutex_);
    if (!slot.result) conclude(slot);
    return slot.result.has_value();
}

void WaitingConnection::cancel(Slot& slot) {
    Lock lock(mutex_);
    withdraw(slot, Status(Code::HoldfastError, "the call was cancelled", address_));
}

// ---- a pending call --------------------------------------------------------------------------

PendingCall::PendingCall(std::shared_ptr<WaitingConnection> connection, std::shared_ptr<Slot> slot)
    : connection_(std::move(connection)), slot_(std::move(slot)), forks_(forks) {}

bool PendingCall::inherited() const {
    return forks_ != forks;
}

PendingCall::~PendingCall() {
    if (!connection_) return;  // moved from
    if (!inherited()) {
        connection_->cancel(*slot_);
        return;
    }
    // Some thread of the parent may have been in the middle of it: never touched again.
    new auto(std::move(connection_));
    new auto(std::move(slot_));
}

Result<std::string> PendingCall::result() {
    if (!inherited()) return connection_->result(*slot_);
    return Status(Code::Unavailable,
                  "the call was made before this process was forked; make it again",
                  connection_->address_);
}

bool PendingCall::done() {
    return inherited() || connection_->done(*slot_);
}

void PendingCall::cancel() {
    if (!inherited()) connection_->cancel(*slot_);
}

}  // namespace holdfast
