#include "rpc/channel.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "base/passing.hpp"
#include "rpc/congestion.hpp"

namespace holdfast {

bool (*interrupted)() = nullptr;

namespace {

// How long a client waits for the challenge before it sends another byte.
constexpr auto kMoment = std::chrono::milliseconds(250);

Status gone(const char* doing, int error) {
    return system_failure(Code::Unavailable, std::string("the connection broke while ") + doing,
                          error);
}

Status too_late() {
    return Status(Code::DeadlineMissed, "no answer within the deadline");
}

// After a failed call on the socket: try again, or give up with a reason.
Status after_error(const char* doing, int error, const Deadline& deadline) {
    if (error == EINTR) {
        if (interrupted != nullptr && interrupted())
            return Status(Code::HoldfastError, "interrupted by a signal");
        return Clock::now() < deadline.end ? Status() : too_late();
    }
    // The socket's own time-out, as long as one stall, has passed without a byte.
    if (error == EAGAIN || error == EWOULDBLOCK || error == EINPROGRESS) return too_late();
    return gone(doing, error);
}

// Gives way between two looks; when that took long, others ran and want to again.
class Looking {
  public:
    explicit Looking(Duration moment)
        : looks_(moment > Duration::zero()), end_(looks_ ? Clock::now() + moment : TimePoint()) {}

    int flags() const { return looks_ ? MSG_DONTWAIT : 0; }
    // After a receive with these flags that found nothing; false if it was none of ours.
    bool goes_on() {
        if (!looks_) return false;
        TimePoint before = Clock::now();
        ::sched_yield();
        TimePoint now = Clock::now();
        looks_ = now < end_ && now - before < kNobodyElse;
        return true;
    }

  private:
    static constexpr auto kNobodyElse = std::chrono::microseconds(3);
    bool looks_;
    TimePoint end_;
};

ssize_t receive_with_descriptors(int socket, void* out, std::size_t most, int flags,
                                 std::vector<Fd>& passed) {
    iovec part{out, most};
    Passing passing;
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    passing.make_room(message);
    auto got = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC | flags);
    if (got > 0)
        for (Fd& came : Passing::take(message)) passed.push_back(std::move(came));
    return got;
}

}  // namespace

// What is left of a deadline differs with every request: rounded up a little, it is mostly what the
// socket is set to already.
Status Channel::limit(int option, Duration& set, Duration stall) {
    auto exact = std::chrono::duration_cast<std::chrono::microseconds>(stall).count();
    auto micros = static_cast<std::uint64_t>(std::max<std::int64_t>(exact, 1000));  // 0: for ever
    std::uint64_t step = std::bit_floor(micros) / 16;
    micros = (micros + step - 1) / step * step;
    if (set == std::chrono::microseconds(micros)) return {};
    timeval timeout{static_cast<time_t>(micros / 1'000'000),
                    static_cast<suseconds_t>(micros % 1'000'000)};
    if (::setsockopt(fd_.get(), SOL_SOCKET, option, &timeout, sizeof timeout) != 0)
        return gone("setting its time-out", errno);
    set = std::chrono::microseconds(micros);
    return {};
}

Result<Channel> Channel::open(const Address& address) {
    Fd fd(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!fd) return system_failure(Code::Unavailable, "no socket", errno);
    if (!address.is_unix()) set_congestion_control(fd.get());
    return Channel(std::move(fd));
}

Status Channel::connect(const Address& address, std::string_view job_key, Duration stall) {
    Deadline deadline(stall);
    if (Status status = limit(SO_SNDTIMEO, sends_within_, stall); !status.ok()) return status;
    while (::connect(fd(), address.get(), address.size) != 0) {
        if (errno == EISCONN) break;  // the attempt that a signal interrupted went on and succeeded
        if (errno == ECONNREFUSED || errno == ENOENT)
            return Status(Code::Unavailable, "nothing is listening there");
        if (Status status = after_error("connecting", errno == EALREADY ? EAGAIN : errno, deadline);
            !status.ok())
            return status;
    }
    return address.is_unix() ? check_peer_uid(fd()) : handshake(job_key, deadline.end);
}

// If the listener is closed while it is connected to, the kernel may drop the server's half without
// a word, and says so only to one who sends. So the client begins its nonce before it hears the
// challenge, and goes on byte by byte while it waits.
Result<std::size_t> Channel::receive_challenge(char* out, const Nonce& ours, TimePoint end) {
    std::size_t sent = 0;
    for (std::size_t got = 0; got < kChallengeBytes;) {
        Deadline moment(std::min<Duration>(kMoment, end - Clock::now()));
        if (sent < ours.size())
            if (Status status = send(&ours[sent++], 1, moment); !status.ok()) return status;
        auto some = receive(out + got, kChallengeBytes - got, moment);
        if (some.ok())
            got += *some;
        else if (some.status().code() != Code::DeadlineMissed || Clock::now() >= end)
            return some;
    }
    return sent;
}

Status Channel::handshake(std::string_view job_key, TimePoint end) {
    int on = 1;
    ::setsockopt(fd_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    char challenge[kChallengeBytes];
    Nonce client = fresh_nonce();
    auto sent = receive_challenge(challenge, client, end);
    if (!sent.ok()) return sent.take_status();
    auto server = decode_challenge(challenge);
    if (!server.ok()) return server.take_status();
    auto ours = client_proof(job_key, *server, client);
    if (!ours.ok()) return ours.take_status();
    char answer[kAnswerBytes];
    std::memcpy(answer, client.data(), client.size());
    std::memcpy(answer + client.size(), ours->data(), ours->size());
    Deadline deadline(end - Clock::now());
    if (Status status = send(answer + *sent, sizeof answer - *sent, deadline); !status.ok())
        return status;
    auto expected = server_proof(job_key, *server, client);  // while the other side does its part
    if (!expected.ok()) return expected.take_status();
    Digest theirs;
    if (Status status = receive_all(theirs.data(), theirs.size(), deadline); !status.ok())
        return status;
    if (!equal_digests(theirs, *expected))
        return Status(
            Code::Refused,
            "its job key does not match; connect to the session that this program belongs to");
    return {};
}

Status Channel::send(const void* data, std::size_t size, const Deadline& deadline) {
    iovec part{const_cast<void*>(data), size};
    return send(&part, 1, deadline);
}

Status Channel::send(iovec* parts, std::size_t count, const Deadline& deadline) {
    if (Status status = limit(SO_SNDTIMEO, sends_within_, deadline.stall); !status.ok())
        return status;
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = count;
    while (message.msg_iovlen > 0) {
        auto& first = *message.msg_iov;
        auto sent = message.msg_iovlen > 1
                        ? ::sendmsg(fd_.get(), &message, MSG_NOSIGNAL)
                        : ::send(fd_.get(), first.iov_base, first.iov_len, MSG_NOSIGNAL);
        if (sent < 0) {
            if (Status status = after_error("sending", errno, deadline); !status.ok())
                return status;
            continue;
        }
        auto left = static_cast<std::size_t>(sent);
        while (message.msg_iovlen > 0 && left >= message.msg_iov->iov_len) {
            left -= message.msg_iov->iov_len;
            ++message.msg_iov;
            --message.msg_iovlen;
        }
        if (message.msg_iovlen == 0) break;
        message.msg_iov->iov_base = static_cast<char*>(message.msg_iov->iov_base) + left;
        message.msg_iov->iov_len -= left;
        if (Clock::now() >= deadline.end) return too_late();
    }
    return {};
}

Status Channel::send_file(const Fd& file, std::uint64_t offset, std::uint64_t size,
                          const Deadline& deadline) {
    if (Status status = limit(SO_SNDTIMEO, sends_within_, deadline.stall); !status.ok())
        return status;
    while (size > 0) {
        auto at = static_cast<off_t>(offset);
        auto sent = ::sendfile(fd_.get(), file.get(), &at, size);
        if (sent == 0) return Status(Code::Damaged, "a file was cut short while it was sent");
        if (sent < 0) {
            if (Status status = after_error("sending a file", errno, deadline); !status.ok())
                return status;
            continue;
        }
        offset += static_cast<std::uint64_t>(sent);
        size -= static_cast<std::uint64_t>(sent);
        if (size > 0 && Clock::now() >= deadline.end) return too_late();
    }
    return {};
}

Result<std::size_t> Channel::receive(void* out, std::size_t most, const Deadline& deadline,
                                     std::vector<Fd>* passed) {
    if (Status status = limit(SO_RCVTIMEO, receives_within_, deadline.stall); !status.ok())
        return status;
    Looking looking(looks_for_);
    for (;;) {
        int flags = looking.flags();
        auto got = passed != nullptr
                       ? receive_with_descriptors(fd_.get(), out, most, flags, *passed)
                       : ::recv(fd_.get(), out, most, flags);
        if (got == 0) return Status(Code::Unavailable, "the other side closed the connection");
        if (got > 0) return static_cast<std::size_t>(got);
        if (errno == EAGAIN && looking.goes_on()) continue;
        if (Status status = after_error("receiving", errno, deadline); !status.ok()) return status;
    }
}

Status Channel::receive_all(void* out, std::size_t size, const Deadline& deadline) {
    auto* at = static_cast<char*>(out);
    while (size > 0) {
        auto got = receive(at, size, deadline);
        if (!got.ok()) return got.take_status();
        at += *got;
        size -= *got;
        if (size > 0 && Clock::now() >= deadline.end) return too_late();
    }
    return {};
}

}  // namespace holdfast
