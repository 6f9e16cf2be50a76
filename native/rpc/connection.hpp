// A server's end of a connection: reads heads of requests, writes answers, never blocks.
// It belongs to one thread at a time, a loop or, while it has blocking work, a pool thread.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.hpp"
#include "base/scratch.hpp"
#include "rpc/auth.hpp"
#include "rpc/handler.hpp"
#include "rpc/parked_requests.hpp"

namespace holdfast {

class Connection {
  public:
    // Over TCP nothing is read before the peer has proved that it holds `job_key`; then `proved` is
    // called.
    Connection(Fd fd, bool local, std::string peer, std::string_view job_key,
               std::function<void()> proved);

    int fd() const { return fd_.get(); }
    const std::string& peer() const { return peer_; }

    enum class Read { Request, More, Closed };
    // Reads what is there; a failure is the reason to refuse the connection.
    Result<Read> read(Request& request);

    // Starts an answer to the last request; flush() sends it.
    void answer(Answer answer);

    enum class Flush { Done, NotWritable, NeedsDisk, NeedsGrowth, Broken };
    Flush flush();
    void wait_for_growth(std::function<void()> wake);
    void read_from_disk();  // after NeedsDisk, on a thread that may block

    // From its first request with Op::Wait or Op::Cancel on it carries only these: it is read on
    // while answers are due or unsent, and answered in any order. It is never lent.
    bool waits() const { return parked_ != nullptr; }
    ParkedRequests& parked();
    // Queues an answer for flush(); false if the peer has left too many unread, and for too long.
    bool reply(std::uint64_t request, const Result<std::string>& result);
    void queue_heartbeat();
    bool has_unsent() const { return output_ || !queue_.empty(); }

    // Lend the connection to a pool thread that reads the request's body, and take it back.
    Body lend_body();
    void take_back(Body& body);

    // Since when it has neither received nor sent a byte, and whether it may rest like that.
    TimePoint last_active() const { return last_active_; }
    bool trusted() const { return trusted_; }
    bool resting() const { return trusted_ && input_end_ == 0 && !has_unsent(); }
    // Whether something is kept for it that lives on while it rests.
    bool lives() { return kept_ && kept_->lives(); }

  private:
    struct Output {
        std::string head;  // header and meta
        std::size_t head_sent = 0;
        Answer answer;
        std::uint64_t body_bytes = 0;
        std::uint64_t body_sent = 0;
        std::optional<Scratch> room;  // not cleared for each window: that is a third copy
        std::string_view window;      // of a file that may block: read into it, not sent yet
        std::size_t window_sent = 0;
        bool unreadable = false;
        std::string trailer;
        std::size_t trailer_sent = 0;
    };

    Result<bool> check_answer();  // of the handshake
    Flush send_head();
    Flush send_body(std::size_t& quota);
    Flush send_file(const FileSlice& slice, std::uint64_t limit, std::size_t& quota);
    Flush send_window(const FileSlice& slice, std::uint64_t limit);
    bool read_window(const FileSlice& slice, std::uint64_t limit, int flags);
    Flush send_text(std::string_view text, std::size_t& sent);
    Flush send_queue();
    void prepare_queue();
    void consume(std::size_t bytes);

    Fd fd_;
    const bool local_;
    const std::string peer_;
    const std::string_view job_key_;
    const std::function<void()> proved_;
    bool trusted_;
    Nonce nonce_{};
    TimePoint last_active_ = Clock::now();

    std::string input_;  // kInput bytes; grows to hold a long meta
    std::size_t input_end_ = 0;
    bool drained_ = false;        // the last receive took all there was: ask epoll before the next
    Header header_;               // of the last request
    std::unique_ptr<Kept> kept_;  // Request::kept
    std::optional<Output> output_;

    std::unique_ptr<ParkedRequests> parked_;
    std::string queue_;  // whole frames, of which the first bytes may have gone
    std::size_t queue_sent_ = 0;
    TimePoint queue_moved_{};  // when its peer last took some of it, or it began
};

}  // namespace holdfast
