#include "rpc/connection_pool.hpp"

#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <utility>

#include "base/crc32c.hpp"
#include "base/mutex.hpp"
#include "base/scratch.hpp"
#include "rpc/parked_requests.hpp"

namespace holdfast {
namespace {

constexpr std::size_t kIdlePerAddress = 16;
constexpr auto kLeastDeadline = std::chrono::milliseconds(1);
constexpr auto kMostDeadline = std::chrono::hours(24);
// Pieces of this size are still in the cache when their checksum is taken.
constexpr std::size_t kPiece = 256 << 10;

}  // namespace

// ---- fork ------------------------------------------------------------------------------------

// Holds every pool still while the process forks, then empties the child's.
struct ConnectionPool::ForkGuard {
    Mutex mutex;
    std::set<ConnectionPool*> pools;

    static ForkGuard& instance() {
        static auto* guard = [] {
            ::pthread_atfork([] { instance().hold(); }, [] { instance().let_go(false); },
                             [] { instance().let_go(true); });
            return new ForkGuard;  // never destroyed: a fork may come late
        }();
        return *guard;
    }
    // The fork happens between these two.
    void hold() NOT_CHECKED {
        mutex.lock();
        for (ConnectionPool* pool : pools) pool->mutex_.lock();
    }
    void let_go(bool child) NOT_CHECKED {
        for (ConnectionPool* pool : pools) {
            if (child) pool->abandon_after_fork();
            pool->mutex_.unlock();
        }
        if (child) WaitingConnection::forked();
        mutex.unlock();
    }
};

ConnectionPool::ConnectionPool(std::string job_key, Duration looks_for, Duration rest)
    : job_key_(std::move(job_key)), looks_for_(looks_for), rest_(rest) {
    auto& guard = ForkGuard::instance();
    Lock lock(guard.mutex);
    guard.pools.insert(this);
}

ConnectionPool::~ConnectionPool() {
    auto& guard = ForkGuard::instance();
    Lock lock(guard.mutex);
    guard.pools.erase(this);
}

void ConnectionPool::abandon_after_fork() {
    for (auto& [address, connections] : idle_)
        for (auto& idle : connections) std::move(idle.channel).take().release();
    idle_.clear();
    new auto(std::exchange(waiting_, {}));  // whatever their threads were about: left as they are
    for (auto& [fd, address] : open_) ::close(fd);
    open_.clear();
    for (int fd : files_) ::close(fd);
    files_.clear();
}

// ---- the pool --------------------------------------------------------------------------------

// They stand in the order of their return.
void ConnectionPool::drop_stale(std::vector<Idle>& connections, TimePoint now) {
    auto fresh = std::find_if(connections.begin(), connections.end(),
                              [&](const Idle& idle) { return idle.since > now - rest_; });
    for (auto idle = connections.begin(); idle != fresh; ++idle) open_.erase(idle->channel.fd());
    connections.erase(connections.begin(), fresh);
}

std::optional<Channel> ConnectionPool::take_idle(const std::string& address) {
    Lock lock(mutex_);
    auto found = idle_.find(address);
    if (found == idle_.end()) return {};
    auto& connections = found->second;
    drop_stale(connections, Clock::now());
    if (connections.empty()) return {};
    std::optional channel(std::move(connections.back().channel));
    connections.pop_back();
    return channel;
}

void ConnectionPool::give_back(const std::string& address, Channel channel) {
    decltype(waiting_) waiting;  // retired without the lock, which they need
    {
        Lock lock(mutex_);
        auto now = Clock::now();
        if (now - last_sweep_ > rest_) {  // also of agents that nobody asks any more
            last_sweep_ = now;
            for (auto& [other, connections] : idle_) drop_stale(connections, now);
            std::erase_if(idle_, [](const auto& entry) { return entry.second.empty(); });
            waiting = waiting_;
        }
        auto& connections = idle_[address];
        if (connections.size() < kIdlePerAddress && !closed_) {
            connections.push_back({std::move(channel), now});
        } else {
            open_.erase(channel.fd());
            Fd closed = std::move(channel).take();
        }
    }
    for (auto& [other, connection] : waiting) connection->retire(rest_);
}

Result<Fd> ConnectionPool::make_waker(const std::string& address) {
    Lock lock(mutex_);
    Fd fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!fd) return system_failure(Code::Unavailable, "no descriptor to wait with", errno);
    open_.emplace(fd.get(), address);
    return fd;
}

void ConnectionPool::discard(Fd fd) {
    Lock lock(mutex_);
    open_.erase(fd.get());
    fd.reset();
}

void ConnectionPool::keep(const Fd& file) {
    Lock lock(mutex_);
    files_.insert(file.get());
}

void ConnectionPool::close(Fd file) {
    Lock lock(mutex_);
    files_.erase(file.get());
    file.reset();
}

void ConnectionPool::forget(const std::string& address) {
    Lock lock(mutex_);
    auto found = idle_.find(address);
    if (found == idle_.end()) return;
    for (auto& idle : found->second) open_.erase(idle.channel.fd());
    idle_.erase(found);
}

void ConnectionPool::close_idle() {
    decltype(waiting_) waiting;
    {
        Lock lock(mutex_);
        for (auto& [address, connections] : idle_)
            for (auto& idle : connections) open_.erase(idle.channel.fd());
        idle_.clear();
        waiting = waiting_;
    }
    for (auto& [address, connection] : waiting) connection->retire({});
}

void ConnectionPool::close() {
    Lock lock(mutex_);
    closed_ = true;
    for (auto& [fd, address] : open_) ::shutdown(fd, SHUT_RDWR);
}

void ConnectionPool::set_live(const std::vector<std::string>& addresses) {
    std::set<std::string, std::less<>> live(addresses.begin(), addresses.end());
    Lock lock(mutex_);
    for (auto& now : live) dead_.erase(now);
    auto died = [&](const std::string& address)
                    REQUIRES(mutex_) { return live_.contains(address) && !live.contains(address); };
    std::copy_if(live_.begin(), live_.end(), std::inserter(dead_, dead_.end()), died);
    for (auto& [fd, address] : open_)
        if (died(address)) ::shutdown(fd, SHUT_RDWR);
    live_ = std::move(live);
}

Result<Channel> ConnectionPool::dial(const std::string& text, Duration deadline, bool to_the_dead) {
    auto address = Address::parse(text);
    if (!address.ok()) return address.take_status();
    Lock lock(mutex_);
    if (closed_) return Status(Code::Unavailable, "this side is stopping");
    if (!to_the_dead && dead_.contains(text))
        return Status(Code::Unavailable, "the other members agree that it is dead");
    auto channel = Channel::open(*address);
    if (!channel.ok()) return channel;
    channel->look_for(looks_for_);
    // Before it connects: a fork or close() in the middle must know of it.
    open_.emplace(channel->fd(), text);
    lock.unlock();
    if (Status status = channel->connect(*address, job_key_, deadline); !status.ok()) {
        discard(std::move(*channel));
        return status;
    }
    return channel;
}

Result<Exchange> ConnectionPool::ask(const std::string& address, const Question& question,
                                     Duration deadline) {
    // The other side would cut us off for these, without a word.
    if (question.meta.size() > kMaxMeta || question.announced_bytes > kMaxBody)
        return Status(Code::BadInput, "the names in a request can have at most " +
                                          std::to_string(kMaxMeta) + " bytes, its body " +
                                          std::to_string(kMaxBody));
    deadline = std::clamp<Duration>(deadline, kLeastDeadline, kMostDeadline);
    if (auto idle = take_idle(address)) {
        auto exchange = attempt(address, question, deadline, std::move(*idle));
        // An idle connection may have been closed by an agent that is gone, or gone and back. All
        // operations may be repeated, so a fresh connection decides.
        if (exchange.ok() || exchange.status().code() != Code::Unavailable ||
            exchange.status().at() != address)
            return exchange;
        forget(address);
    }
    // Nobody but the one we dial could say whether it lives: it has the time for that as well.
    auto channel =
        dial(address, question.lives ? std::min(2 * question.silence, deadline) : deadline,
             question.to_the_dead);
    if (!channel.ok()) return channel.take_status().located(address);
    return attempt(address, question, deadline, std::move(*channel));
}

Result<PendingCall> ConnectionPool::wait(const std::string& address, const std::string& meta,
                                         Duration within, Duration silence) {
    within = std::clamp<Duration>(within, kLeastDeadline, kMostDeadline);
    silence = std::clamp(silence, kLeastSilence, kMostSilence);
    std::shared_ptr<WaitingConnection> failed;
    for (;;) {
        auto [connection, fresh] = waiting_at(address, failed);
        connection->retire(rest_);
        if (!fresh && !connection->usable()) {
            failed = connection;
            continue;
        }
        if (Status status = connection->open(silence); !status.ok()) return status;
        auto call = connection->send(meta, within, silence);
        // One that others used may have been closed by an agent that is gone, or gone and back: a
        // fresh one decides.
        if (call.ok() || fresh || call.status().code() != Code::Unavailable) return call;
        failed = connection;
    }
}

std::pair<std::shared_ptr<WaitingConnection>, bool> ConnectionPool::waiting_at(
    const std::string& address, const std::shared_ptr<WaitingConnection>& failed) {
    std::shared_ptr<WaitingConnection> replaced;  // goes without the lock, which it needs
    Lock lock(mutex_);
    auto& known = waiting_[address];
    bool fresh = !known || known == failed;
    if (fresh) replaced = std::exchange(known, std::make_shared<WaitingConnection>(*this, address));
    return {known, fresh};
}

Result<std::string> ConnectionPool::ask_text(const std::string& address, const Question& question,
                                             Duration deadline) {
    if (question.body.size() > kMaxMessage)
        return Status(Code::BadInput, "a message of " + std::to_string(question.body.size()) +
                                          " bytes; the limit is " + std::to_string(kMaxMessage));
    auto exchange = ask(address, question, deadline);
    if (!exchange.ok()) return exchange.take_status();
    if (exchange->reply().body_bytes > kMaxMessage)
        return Status(Code::Damaged, "the reply is too long", address);
    std::string text(exchange->reply().body_bytes, '\0');
    if (Status status = exchange->read_body(text.data()); !status.ok()) return status;
    return text;
}

Result<Exchange> ConnectionPool::attempt(const std::string& address, const Question& question,
                                         Duration deadline, Channel channel) {
    Exchange exchange(this, address, std::move(channel), Deadline(deadline));
    Status status = exchange.send_question(question);
    if (status.ok() && question.meanwhile) question.meanwhile();
    if (status.ok()) status = exchange.read_reply(&question);
    if (!status.ok()) return std::move(status).located(address);
    return exchange;
}

// ---- one exchange ----------------------------------------------------------------------------

Exchange::~Exchange() {
    if (channel_.fd() < 0) return;  // moved from
    if (clean_)
        pool_->give_back(address_, std::move(channel_));
    else
        pool_->discard(std::move(channel_));
}

Status Exchange::send_question(const Question& question) {
    clean_ = false;  // a part of it may be all that arrives
    Header header;
    header.op = op_ = question.op;
    header.request = request_ = pool_->next_request_++;
    header.flags = question.flags;
    header.body_bytes = question.body.size() + question.announced_bytes;
    if (question.body.empty())
        header.flags |= question.announced_bytes > 0 ? kCrcFollows : 0;
    else
        header.body_crc = crc32c(0, question.body.data(), question.body.size());
    header.deadline_ms = static_cast<std::uint32_t>(
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline_.stall).count());
    wants_descriptor_ = header.has(kDescriptor);
    std::string head(kHeaderBytes + question.meta.size(), '\0');
    encode_header(header, question.meta, head.data());
    question.meta.copy(head.data() + kHeaderBytes, question.meta.size());
    iovec parts[2] = {{head.data(), head.size()},
                      {const_cast<char*>(question.body.data()), question.body.size()}};
    deadline_.allow(header.body_bytes + question.moved_bytes);
    return channel_.send(parts, question.body.empty() ? 1 : 2, deadline_);
}

std::size_t Exchange::Ahead::room() const {
    return large ? kPiece : small.size();
}

void Exchange::Ahead::enlarge() {
    if (large) return;
    Scratch more(kPiece);
    std::memcpy(more.data(), small.data() + at, end - at);
    large.emplace(std::move(more));
    end -= std::exchange(at, 0);
}

Result<std::size_t> Exchange::read_some(char* out, std::size_t most) {
    if (ahead_.at < ahead_.end) {
        std::size_t size = std::min(most, ahead_.end - ahead_.at);
        std::memcpy(out, ahead_.bytes() + ahead_.at, size);
        ahead_.at += size;
        return size;
    }
    return channel_.receive(out, most, deadline_);
}

Status Exchange::read_reply(const Question* question) {
    bool watched = question != nullptr && question->lives;
    clean_ = false;
    ahead_.at = ahead_.end = 0;
    if (question != nullptr && question->in_pieces) ahead_.enlarge();
    char* bytes = ahead_.bytes();
    auto fetch = [&](std::size_t wanted) -> Status {
        while (ahead_.end < wanted) {
            Deadline wait =
                watched ? Deadline(std::min(question->silence, deadline_.stall)) : deadline_;
            auto got = channel_.receive(bytes + ahead_.end, ahead_.room() - ahead_.end, wait,
                                        wants_descriptor_ ? &descriptors_ : nullptr);
            if (!got.ok() && watched && got.status().code() == Code::DeadlineMissed &&
                Clock::now() < deadline_.end && question->lives())
                continue;
            if (!got.ok()) return got.take_status();
            ahead_.end += *got;
        }
        return {};
    };
    if (Status status = fetch(kHeaderBytes); !status.ok()) return status;
    auto header = decode_header(bytes);
    if (!header.ok()) return header.take_status();
    if (!header->has(kReply) || header->op != op_ || header->request != request_)
        return Status(Code::Damaged, "malformed frame: not the reply to this request");
    reply_ = *header;
    ahead_.at = kHeaderBytes;
    meta_.resize(reply_.meta_bytes);
    for (std::size_t at = 0; at < meta_.size();) {
        auto got = read_some(meta_.data() + at, meta_.size() - at);
        if (!got.ok()) return got.take_status();
        at += *got;
    }
    if (!head_is_whole(bytes, meta_))
        return Status(Code::Damaged, "malformed frame: its head does not match its checksum");
    if (reply_.status != Code::Ok) {
        MetaReader reader(meta_);
        std::string at(reader.text()), message(reader.text());
        clean_ = reply_.body_bytes == 0;
        return Status(reply_.status, message, at);
    }
    clean_ = !has_body() && !reply_.has(kGoOn);
    // The kernel leaves it out when this process has no number free.
    if (reply_.has(kDescriptor) && descriptors_.empty()) {
        clean_ = false;  // with the connection goes what was meant for us
        return Status(Code::Busy,
                      "this process has too many open files to receive another; close some");
    }
    // Who answered has what it sends.
    deadline_ =
        Deadline(watched && !question->head_only ? std::min(question->silence, deadline_.stall)
                                                 : deadline_.stall);
    deadline_.allow(reply_.body_bytes);
    return {};
}

Status Exchange::check_body(std::uint32_t crc) {
    std::uint32_t expected = reply_.body_crc;
    if (reply_.has(kCrcFollows)) {
        unsigned char trailer[kTrailerBytes];
        for (std::size_t at = 0; at < sizeof trailer;) {
            auto got = read_some(reinterpret_cast<char*>(trailer) + at, sizeof trailer - at);
            if (!got.ok()) return got.take_status().located(address_);
            at += *got;
        }
        expected =
            MetaReader({reinterpret_cast<char*>(trailer), sizeof trailer}).number<std::uint32_t>();
    }
    clean_ = true;
    if (crc != expected)
        return Status(Code::Damaged, "the bytes do not match their checksum", address_);
    return {};
}

Status Exchange::read_body(char* out) {
    std::uint32_t crc = 0;
    for (std::uint64_t at = 0; at < reply_.body_bytes;) {
        auto most = std::min<std::uint64_t>(kPiece, reply_.body_bytes - at);
        auto got = read_some(out + at, most);
        if (!got.ok()) return got.take_status().located(address_);
        crc = crc32c(crc, out + at, *got);
        at += *got;
    }
    return has_body() ? check_body(crc) : Status();
}

Status Exchange::read_body(const Sink& sink) {
    std::uint32_t crc = 0;
    ahead_.enlarge();
    for (std::uint64_t left = reply_.body_bytes; left > 0;) {
        if (ahead_.at == ahead_.end) {
            auto got =
                channel_.receive(ahead_.bytes(), std::min<std::uint64_t>(kPiece, left), deadline_);
            if (!got.ok()) return got.take_status().located(address_);
            ahead_.at = 0;
            ahead_.end = *got;
        }
        const char* piece = ahead_.bytes() + ahead_.at;
        auto size = std::min<std::uint64_t>(ahead_.end - ahead_.at, left);
        crc = crc32c(crc, piece, size);
        if (Status status = sink(piece, size); !status.ok()) return status;
        ahead_.at += size;
        left -= size;
    }
    return has_body() ? check_body(crc) : Status();
}

Status Exchange::send_body(const void* data, std::size_t size) {
    // Counted anew for every piece: if we were slow to bring it, that is not the other side's
    // fault.
    deadline_ = Deadline(deadline_.stall);
    deadline_.allow(size);
    return channel_.send(data, size, deadline_).located(address_);
}

Status Exchange::send_body(const Fd& file, std::uint64_t offset, std::uint64_t size) {
    deadline_ = Deadline(deadline_.stall);
    deadline_.allow(size);
    return channel_.send_file(file, offset, size, deadline_).located(address_);
}

Status Exchange::finish_body(std::uint32_t crc) {
    std::string trailer = MetaWriter().number(crc).take();
    Status status = channel_.send(trailer.data(), trailer.size(), deadline_);
    // The last owner has only now begun to store what it received.
    deadline_.end = std::max(deadline_.end, Clock::now() + deadline_.stall);
    if (status.ok()) status = read_reply();
    return std::move(status).located(address_);
}

Status Exchange::ask_again(const Question& question) {
    deadline_ = Deadline(deadline_.stall);
    Status status = send_question(question);
    if (status.ok()) status = read_reply(&question);
    return std::move(status).located(address_);
}

}  // namespace holdfast
