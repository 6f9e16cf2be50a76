// A blocking connection with deadlines. One thread at a time; every call may block, at most as long
// as the deadline it is given.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "base/fd.hpp"
#include "base/status.hpp"
#include "rpc/address.hpp"
#include "rpc/auth.hpp"

namespace holdfast {

// How long to wait: at most `stall` for a sign of life, and until `end` for everything.
struct Deadline {
    Duration stall;
    TimePoint end;

    explicit Deadline(Duration longest_silence)
        : stall(longest_silence), end(Clock::now() + longest_silence) {}
    // A transfer may take longer than a stall as long as it goes on; 1 MB/s is slow enough, even
    // for one of many that share a disk.
    void allow(std::uint64_t bytes) { end += std::chrono::microseconds(bytes); }
};

class Channel {
  public:
    explicit Channel(Fd fd) : fd_(std::move(fd)) {}

    // A socket for that kind of address, not yet connected.
    static Result<Channel> open(const Address& address);
    // Connects, and proves over TCP that both sides hold the job key.
    Status connect(const Address& address, std::string_view job_key, Duration stall);

    Status send(iovec* parts, std::size_t count, const Deadline& deadline);
    Status send(const void* data, std::size_t size, const Deadline& deadline);
    // Bytes of a file, which do not pass through this process.
    Status send_file(const Fd& file, std::uint64_t offset, std::uint64_t size,
                     const Deadline& deadline);

    // A thread that is woken takes longer to run than most replies to come. So a receive may look
    // for bytes itself for a moment before it sleeps, as long as no other thread wants its core.
    void look_for(Duration moment) { looks_for_ = moment; }

    // At least one byte, at most `most`; descriptors that come along are added to `passed`.
    Result<std::size_t> receive(void* out, std::size_t most, const Deadline& deadline,
                                std::vector<Fd>* passed = nullptr);
    Status receive_all(void* out, std::size_t size, const Deadline& deadline);

    int fd() const { return fd_.get(); }
    Fd take() && { return std::move(fd_); }

  private:
    // Sets a time-out of the socket, unless it stands there already.
    Status limit(int option, Duration& set, Duration stall);
    Status handshake(std::string_view job_key, TimePoint end);
    // Gives how many bytes of our nonce were sent meanwhile.
    Result<std::size_t> receive_challenge(char* out, const Nonce& ours, TimePoint end);

    Fd fd_;
    Duration receives_within_{}, sends_within_{};  // the socket's own time-outs
    Duration looks_for_{};
};

// Asked when a signal interrupts a wait; true gives up. The Python binding sets it.
extern bool (*interrupted)();

}  // namespace holdfast
