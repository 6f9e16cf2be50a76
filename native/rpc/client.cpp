#include "rpc/client.hpp"

#include <pthread.h>

#include <algorithm>
#include <cstring>

#include "base/crc32c.hpp"

namespace holdfast {
namespace {

constexpr std::size_t kIdlePerAddress = 16;
// Shorter than the server's, so that it is the client who closes a connection first.
constexpr auto kIdleTime = std::chrono::seconds(30);
// Pieces of this size are still in the cache when their checksum is taken.
constexpr std::size_t kPiece = 256 << 10;

}  // namespace

// ---- fork
// ----------------------------------------------------------------------------------------

// Holds every client still while the process forks, then empties the child's.
struct Client::ForkGuard {
    std::mutex mutex;
    std::set<Client*> clients;

    static ForkGuard& instance() {
        static auto* guard = [] {
            ::pthread_atfork([] { instance().hold(); }, [] { instance().let_go(false); },
                             [] { instance().let_go(true); });
            return new ForkGuard;  // never destroyed: a fork may come late
        }();
        return *guard;
    }
    void hold() {
        mutex.lock();
        for (Client* client : clients) client->mutex_.lock();
    }
    void let_go(bool child) {
        for (Client* client : clients) {
            if (child) client->abandon_after_fork();
            client->mutex_.unlock();
        }
        mutex.unlock();
    }
};

Client::Client(std::string job_key) : job_key_(std::move(job_key)) {
    auto& guard = ForkGuard::instance();
    std::lock_guard lock(guard.mutex);
    guard.clients.insert(this);
}

Client::~Client() {
    auto& guard = ForkGuard::instance();
    std::lock_guard lock(guard.mutex);
    guard.clients.erase(this);
}

void Client::abandon_after_fork() {
    for (auto& [address, connections] : idle_)
        for (auto& idle : connections) std::move(idle.channel).take().release();
    idle_.clear();
    for (int fd : open_) ::close(fd);
    open_.clear();
}

// ---- the pool
// ------------------------------------------------------------------------------------

std::unique_ptr<Channel> Client::take_idle(const std::string& address) {
    std::lock_guard lock(mutex_);
    auto found = idle_.find(address);
    if (found == idle_.end()) return nullptr;
    auto& connections = found->second;
    auto oldest = Clock::now() - kIdleTime;
    auto stale = std::find_if(connections.begin(), connections.end(),
                              [&](const Idle& idle) { return idle.since > oldest; });
    for (auto idle = connections.begin(); idle != stale; ++idle) open_.erase(idle->channel.fd());
    connections.erase(connections.begin(), stale);
    if (connections.empty()) return nullptr;
    auto channel = std::make_unique<Channel>(std::move(connections.back().channel));
    connections.pop_back();
    return channel;
}

void Client::give_back(const Address& address, Channel channel) {
    std::lock_guard lock(mutex_);
    auto& connections = idle_[address.text];
    if (connections.size() >= kIdlePerAddress) {
        open_.erase(channel.fd());
        return;
    }
    connections.push_back({std::move(channel), Clock::now()});
}

void Client::discard(Channel channel) {
    std::lock_guard lock(mutex_);
    open_.erase(channel.fd());
    Fd closed = std::move(channel).take();
}

void Client::forget(const std::string& address) {
    std::lock_guard lock(mutex_);
    auto found = idle_.find(address);
    if (found == idle_.end()) return;
    for (auto& idle : found->second) open_.erase(idle.channel.fd());
    idle_.erase(found);
}

void Client::close_idle() {
    std::lock_guard lock(mutex_);
    for (auto& [address, connections] : idle_)
        for (auto& idle : connections) open_.erase(idle.channel.fd());
    idle_.clear();
}

Result<Exchange> Client::ask(const std::string& address, const Question& question,
                             Duration patience) {
    auto parsed = Address::parse(address);
    if (!parsed.ok()) return parsed.take_status();
    if (auto idle = take_idle(address)) {
        auto exchange = attempt(*parsed, question, patience, std::move(*idle));
        // An idle connection may have been closed by an agent that is gone, or gone and back. All
        // operations may be repeated, so a fresh connection decides.
        if (exchange.ok() || exchange.status().code() != Code::Unavailable ||
            exchange.status().at() != address)
            return exchange;
        forget(address);
    }
    auto channel = Channel::dial(*parsed, job_key_, patience);
    if (!channel.ok()) return channel.take_status().located(address);
    {
        std::lock_guard lock(mutex_);
        open_.insert(channel->fd());
    }
    return attempt(*parsed, question, patience, std::move(*channel));
}

Result<Exchange> Client::attempt(const Address& address, const Question& question,
                                 Duration patience, Channel channel) {
    Exchange exchange(this, address, std::move(channel), Patience(patience));
    Status status = exchange.send_question(question);
    if (status.ok()) status = exchange.read_reply();
    if (!status.ok()) return std::move(status).located(address.text);
    return exchange;
}

// ---- one exchange
// --------------------------------------------------------------------------------

Exchange::~Exchange() {
    if (channel_.fd() < 0) return;  // moved from
    if (clean_)
        client_->give_back(address_, std::move(channel_));
    else
        client_->discard(std::move(channel_));
}

Status Exchange::send_question(const Question& question) {
    Header header;
    header.op = question.op;
    header.flags = question.flags;
    header.body_bytes = question.body.size() + question.announced_bytes;
    if (question.body.empty())
        header.flags |= question.announced_bytes > 0 ? kCrcFollows : 0;
    else
        header.body_crc = crc32c(0, question.body.data(), question.body.size());
    header.patience_ms = static_cast<std::uint32_t>(
        std::chrono::duration_cast<std::chrono::milliseconds>(patience_.stall).count());
    char head[kHeaderBytes];
    encode_header(header, question.meta, head);
    iovec parts[3] = {{head, sizeof head},
                      {const_cast<char*>(question.meta.data()), question.meta.size()},
                      {const_cast<char*>(question.body.data()), question.body.size()}};
    patience_.allow(header.body_bytes);
    return channel_.send(parts, 3, patience_);
}

Result<std::size_t> Exchange::read_some(char* out, std::size_t most) {
    if (ahead_at_ < ahead_end_) {
        std::size_t size = std::min(most, ahead_end_ - ahead_at_);
        std::memcpy(out, ahead_.data() + ahead_at_, size);
        ahead_at_ += size;
        return size;
    }
    return channel_.receive(out, most, patience_);
}

Status Exchange::read_reply() {
    clean_ = false;
    ahead_at_ = ahead_end_ = 0;
    auto fetch = [&](std::size_t wanted) -> Status {
        while (ahead_end_ < wanted) {
            auto got = channel_.receive(ahead_.data() + ahead_end_, ahead_.size() - ahead_end_,
                                        patience_, address_.is_unix() ? &descriptor_ : nullptr);
            if (!got.ok()) return got.take_status();
            ahead_end_ += *got;
        }
        return {};
    };
    if (Status status = fetch(kHeaderBytes); !status.ok()) return status;
    auto header = decode_header(ahead_.data());
    if (!header.ok()) return header.take_status();
    if (!header->has(kReply)) return Status(Code::Damaged, "malformed frame: not a reply");
    reply_ = *header;
    ahead_at_ = kHeaderBytes;
    meta_.resize(reply_.meta_bytes);
    for (std::size_t at = 0; at < meta_.size();) {
        auto got = read_some(meta_.data() + at, meta_.size() - at);
        if (!got.ok()) return got.take_status();
        at += *got;
    }
    if (!head_is_whole(ahead_.data(), meta_))
        return Status(Code::Damaged, "malformed frame: its head does not match its checksum");
    if (reply_.status != Code::Ok) {
        MetaReader reader(meta_);
        std::string at(reader.text()), message(reader.text());
        clean_ = reply_.body_bytes == 0;
        return Status(reply_.status, message, at);
    }
    clean_ = !has_body() && !reply_.has(kGoOn);
    patience_ = Patience(patience_.stall);
    patience_.allow(reply_.body_bytes);
    return {};
}

Status Exchange::check_body(std::uint32_t crc) {
    std::uint32_t expected = reply_.body_crc;
    if (reply_.has(kCrcFollows)) {
        unsigned char trailer[kTrailerBytes];
        for (std::size_t at = 0; at < sizeof trailer;) {
            auto got = read_some(reinterpret_cast<char*>(trailer) + at, sizeof trailer - at);
            if (!got.ok()) return got.take_status().located(address_.text);
            at += *got;
        }
        expected =
            MetaReader({reinterpret_cast<char*>(trailer), sizeof trailer}).number<std::uint32_t>();
    }
    clean_ = true;
    if (crc != expected)
        return Status(Code::Damaged, "the bytes do not match their checksum", address_.text);
    return {};
}

Status Exchange::read_body(char* out) {
    std::uint32_t crc = 0;
    for (std::uint64_t at = 0; at < reply_.body_bytes;) {
        auto most = std::min<std::uint64_t>(kPiece, reply_.body_bytes - at);
        auto got = read_some(out + at, most);
        if (!got.ok()) return got.take_status().located(address_.text);
        crc = crc32c(crc, out + at, *got);
        at += *got;
    }
    return has_body() ? check_body(crc) : Status();
}

Status Exchange::read_body(const Sink& sink) {
    std::uint32_t crc = 0;
    std::vector<char> piece(std::min<std::uint64_t>(kPiece, reply_.body_bytes));
    for (std::uint64_t at = 0; at < reply_.body_bytes;) {
        auto got = read_some(piece.data(), std::min(piece.size(), reply_.body_bytes - at));
        if (!got.ok()) return got.take_status().located(address_.text);
        crc = crc32c(crc, piece.data(), *got);
        if (Status status = sink(piece.data(), *got); !status.ok()) return status;
        at += *got;
    }
    return has_body() ? check_body(crc) : Status();
}

Status Exchange::send_body(const void* data, std::size_t size) {
    patience_.allow(size);
    return channel_.send(data, size, patience_).located(address_.text);
}

Status Exchange::finish_body(std::uint32_t crc) {
    std::string trailer = MetaWriter().number(crc).take();
    Status status = channel_.send(trailer.data(), trailer.size(), patience_);
    // The last owner has only now begun to store what it received.
    patience_.end = std::max(patience_.end, Clock::now() + patience_.stall);
    if (status.ok()) status = read_reply();
    return std::move(status).located(address_.text);
}

}  // namespace holdfast
