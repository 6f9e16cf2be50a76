// The asking side: requests over pooled connections, and calls that wait.
//
// A ConnectionPool may be used by many threads at once; each request has a connection to itself,
// and all calls that wait at one agent share one. After a fork the child starts with an empty pool
// and does not touch the parent's connections. Every call may block, at most as long as its
// deadline. An Exchange belongs to one thread; it must not outlive its pool, nor must a
// PendingCall.
#pragma once

#include <array>
#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mutex.hpp"
#include "base/scratch.hpp"
#include "rpc/channel.hpp"
#include "rpc/frame.hpp"
#include "rpc/waiting_connection.hpp"
#include "rpc/wire.hpp"

namespace holdfast {

class ConnectionPool;

struct Question {
    Op op;
    std::uint16_t flags = 0;
    std::string meta;
    std::string_view body = {};            // sent along; must stay alive during the call
    std::uint64_t announced_bytes = 0;     // with kAskFirst: the size of the body to come
    bool in_pieces = false;                // the reply's body will go into a sink
    std::function<void()> meanwhile = {};  // done while the other side works on it
    bool to_the_dead = false;              // also to an agent whose death is agreed: it may be back
    // For answers that may take their time. After each `silence` of the other side it is asked
    // whether that one lives; if not, the wait ends before the deadline does.
    Duration silence = {};
    std::function<bool()> lives = {};
    std::uint64_t moved_bytes = 0;  // by the other side, before it answers
    bool head_only = false;         // the body of the answer may be silent as long as the deadline
};

// One request on one connection, from the first reply to the end of its body.
class Exchange {
  public:
    Exchange(Exchange&&) = default;
    ~Exchange();

    const Header& reply() const { return reply_; }
    const std::string& meta() const { return meta_; }
    Fd take_descriptor() { return descriptors_.empty() ? Fd() : std::move(descriptors_.front()); }
    std::vector<Fd> take_descriptors() { return std::move(descriptors_); }

    // The body of the reply, verified; `out` has room for reply().body_bytes.
    Status read_body(char* out);
    // The same in pieces; `sink` may refuse one and so end the exchange.
    using Sink = std::function<Status(const char*, std::size_t)>;
    Status read_body(const Sink& sink);

    // After a reply with kGoOn: the announced body in pieces, then its checksum and the next reply.
    Status send_body(const void* data, std::size_t size);
    Status send_body(const Fd& file, std::uint64_t offset, std::uint64_t size);
    Status finish_body(std::uint32_t crc);

    // After the whole of a reply: another request on the same connection, and the head of its
    // reply.
    Status ask_again(const Question& question);

  private:
    friend class ConnectionPool;
    Exchange(ConnectionPool* pool, std::string address, Channel channel, Deadline deadline)
        : pool_(pool),
          address_(std::move(address)),
          channel_(std::move(channel)),
          deadline_(deadline) {}

    // What arrived beyond what was asked for so far: small replies come in one piece. Moving it
    // copies what is in it, not its room.
    struct Ahead {
        std::array<char, 4096> small;
        std::optional<Scratch> large;
        std::size_t at = 0, end = 0;

        Ahead() = default;
        Ahead(Ahead&& other) noexcept
            : large(std::move(other.large)), at(other.at), end(other.end) {
            if (!large) std::memcpy(small.data() + at, other.small.data() + at, end - at);
        }
        char* bytes() { return large ? large->data() : small.data(); }
        std::size_t room() const;
        void enlarge();
    };

    Status send_question(const Question& question);
    Status read_reply(const Question* question = nullptr);
    Result<std::size_t> read_some(char* out, std::size_t most);
    Status check_body(std::uint32_t crc);
    // An empty file that was served while it grew has a checksum behind it all the same.
    bool has_body() const { return reply_.body_bytes > 0 || reply_.has(kCrcFollows); }

    ConnectionPool* pool_;
    std::string address_;
    Channel channel_;
    Deadline deadline_;
    Op op_ = Op::Get;            // of the request; the reply must bear both
    std::uint64_t request_ = 0;  // its number
    Header reply_;
    std::string meta_;
    std::vector<Fd> descriptors_;
    Ahead ahead_;
    bool wants_descriptor_ = false;
    bool clean_ = false;  // the connection can serve the next request
};

class ConnectionPool {
  public:
    // `looks_for`: see Channel::look_for. What rests for `rest` is closed. It is shorter than the
    // server's, so that it is the client who closes a connection first.
    explicit ConnectionPool(std::string job_key, Duration looks_for = {},
                            Duration rest = std::chrono::seconds(30));
    ~ConnectionPool();
    ConnectionPool(const ConnectionPool&) = delete;
    ConnectionPool& operator=(const ConnectionPool&) = delete;

    // Sends the question and reads the head of the reply. A reply that reports a failure comes back
    // as that failure, with the address where it happened.
    Result<Exchange> ask(const std::string& address, const Question& question, Duration deadline);

    // The same for a reply whose body is held in memory.
    Result<std::string> ask_text(const std::string& address, const Question& question,
                                 Duration deadline);

    // A call with Op::Wait, to be answered within that time; it may take `silence` to send it. An
    // agent that is silent for so long meanwhile has failed it.
    Result<PendingCall> wait(const std::string& address, const std::string& meta, Duration within,
                             Duration silence);

    // Who lives. One that did before and does not any more is dead: what was asked of it ends as
    // Unavailable, however long its sockets stay open, and so does what is asked of it from now on.
    void set_live(const std::vector<std::string>& addresses);

    // A file that a reply brought and that is not for children: one that is forked closes its copy.
    // It is closed by close().
    void keep(const Fd& file);
    void close(Fd file);

    // Closes the connections that are idle.
    void close_idle();

    // Ends all requests and refuses new ones, so that nobody waits for others at the end.
    void close();

  private:
    friend class Exchange;
    friend class WaitingConnection;
    struct Idle {
        Channel channel;
        TimePoint since;
    };
    struct ForkGuard;

    Result<Exchange> attempt(const std::string& address, const Question& question,
                             Duration deadline, Channel channel);
    // The one to that agent, or a new one (true) if there is none other than `failed`.
    std::pair<std::shared_ptr<WaitingConnection>, bool> waiting_at(
        const std::string& address, const std::shared_ptr<WaitingConnection>& failed);
    Result<Channel> dial(const std::string& address, Duration deadline, bool to_the_dead);
    void give_back(const std::string& address, Channel channel);
    // What wakes those who wait on a connection.
    Result<Fd> make_waker(const std::string& address);
    void discard(Channel channel) { discard(std::move(channel).take()); }
    void discard(Fd fd);
    std::optional<Channel> take_idle(const std::string& address);
    void forget(const std::string& address);  // its agent has been replaced
    void drop_stale(std::vector<Idle>& connections, TimePoint now) REQUIRES(mutex_);
    void abandon_after_fork() REQUIRES(mutex_);

    const std::string job_key_;
    const Duration looks_for_, rest_;
    Mutex mutex_;
    std::map<std::string, std::vector<Idle>, std::less<>> idle_ GUARDED_BY(mutex_);
    // Every connection, idle or not, and every waker, and where it leads: a forked child closes its
    // copies.
    std::map<int, std::string> open_ GUARDED_BY(mutex_);
    std::set<int> files_ GUARDED_BY(mutex_);  // that are kept; likewise
    // As far as anybody said.
    std::set<std::string, std::less<>> live_ GUARDED_BY(mutex_), dead_ GUARDED_BY(mutex_);
    TimePoint last_sweep_ GUARDED_BY(mutex_) = Clock::now();
    bool closed_ GUARDED_BY(mutex_) = false;
    std::atomic<std::uint64_t> next_request_{1};
    // Behind what they leave when they go.
    std::map<std::string, std::shared_ptr<WaitingConnection>, std::less<>> waiting_
        GUARDED_BY(mutex_);
};

}  // namespace holdfast
