#include "rpc/loop.hpp"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

#include <array>
#include <utility>

#include "base/log.hpp"
#include "base/thread.hpp"
#include "rpc/body.hpp"

namespace holdfast {
namespace {

// What one connection may ask before others have their turn.
constexpr int kRequestsPerTurn = 32;
// A program that reads file after file asks again within a fraction of that.
constexpr int kLingerMs = 2;
constexpr int kMostLingering = 8;
// Heartbeats that are due within so short a time go together.
constexpr auto kHeartbeatSlack = std::chrono::milliseconds(10);

timespec as_timespec(Duration duration) {
    auto exact = std::chrono::duration_cast<std::chrono::nanoseconds>(duration).count();
    return {exact / 1'000'000'000, exact % 1'000'000'000};
}

bool for_waiting(Op op) {
    return op == Op::Wait || op == Op::Cancel;
}

}  // namespace

Loop::Loop(Handler& handler, Pool& pool, std::size_t disk_lane, Silence silence, Traffic& traffic)
    : handler_(handler),
      pool_(pool),
      disk_lane_(disk_lane),
      silence_(silence),
      traffic_(traffic),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      timer_(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)),
      heart_(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)) {
    itimerspec every{as_timespec(silence.look), as_timespec(silence.look)};
    ::timerfd_settime(timer_.get(), 0, &every, nullptr);
    for (int fd : {wake_.get(), timer_.get(), heart_.get()}) {
        epoll_event event{EPOLLIN, {.fd = fd}};
        ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event);
    }
}

Loop::~Loop() {
    stop();
}

void Loop::start() {
    thread_ = start_thread([this] { run(); });
}

void Loop::stop() {
    stopping_ = true;
    post([] {});
    if (thread_.joinable()) thread_.join();
    watched_.clear();
    listeners_.clear();
    Lock lock(mutex_);
    posted_.clear();
}

void Loop::post(std::function<void()> work) {
    {
        Lock lock(mutex_);
        posted_.push_back(std::move(work));
    }
    if (std::this_thread::get_id() == runs_on_)
        posts_to_itself_ = true;  // and will not wait
    else
        ::eventfd_write(wake_.get(), 1);
}

void Loop::adopt(std::shared_ptr<Connection> connection) {
    post([this, connection = std::move(connection)] {
        if (send(connection)) read_requests(connection);
    });
}

void Loop::listen(Fd listener, std::function<bool(int)> accept) {
    epoll_event event{EPOLLIN, {.fd = listener.get()}};
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, listener.get(), &event);
    listeners_.push_back({std::move(listener), std::move(accept)});
}

void Loop::run() {
    runs_on_ = std::this_thread::get_id();
    while (!stopping_) turn();
}

void Loop::turn() {
    std::array<epoll_event, 64> events;
    // Without a time-out: arming one for every wait costs more than a timer that ticks by itself.
    bool woken = std::exchange(posts_to_itself_, false), tick = false, heartbeat = false;
    int count =
        ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), woken ? 0 : -1);
    for (int i = 0; i < count && !stopping_; ++i) {
        auto [ready, data] = events[static_cast<std::size_t>(i)];
        int fd = data.fd;
        if (auto found = watched_.find(fd); found != watched_.end()) {
            auto connection = found->second.connection;
            // Who waits for a file to grow neither reads nor writes, so would not notice.
            if (found->second.events == 0 && (ready & (EPOLLHUP | EPOLLERR)) != 0)
                close(connection);
            else
                on_ready(connection);
            continue;
        }
        for (auto& listener : listeners_) {
            if (listener.fd.get() != fd || listener.accept(fd)) continue;
            // Out of descriptors: waiting for some to be closed beats turning at full speed.
            ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
            listener.resting = true;
        }
        if (fd == wake_.get()) {
            eventfd_t ignored;
            ::eventfd_read(wake_.get(), &ignored);
            woken = true;
        }
        tick |= fd == timer_.get();
        heartbeat |= fd == heart_.get();
    }
    if (woken) run_posted();
    if (tick) sweep();
    if (heartbeat) send_heartbeats();
}

void Loop::run_posted() {
    std::vector<std::function<void()>> posted;
    {
        Lock lock(mutex_);
        posted.swap(posted_);
    }
    for (auto& work : posted)
        if (!stopping_) work();
}

void Loop::sweep() {
    std::uint64_t ignored;
    (void)!::read(timer_.get(), &ignored, sizeof ignored);
    auto now = Clock::now();
    std::vector<std::shared_ptr<Connection>> late;
    for (auto& [fd, watched] : watched_) {
        auto& connection = watched.connection;
        if (connection->waits() && !connection->parked().empty()) continue;  // until it is gone
        auto silent = now - connection->last_active();
        if (silent > (!connection->trusted()  ? silence_.stranger
                      : connection->resting() ? silence_.resting
                                              : silence_.unfinished) &&
            !(connection->resting() && connection->lives()))
            late.push_back(connection);
    }
    for (auto& connection : late) close(connection);
    for (auto& listener : listeners_) {
        if (!listener.resting) continue;
        listener.resting = false;
        epoll_event event{EPOLLIN, {.fd = listener.fd.get()}};
        ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, listener.fd.get(), &event);
    }
}

void Loop::beat_by(TimePoint due) {
    if (due >= next_heartbeat_) return;
    next_heartbeat_ = due;
    itimerspec at{{}, as_timespec(due.time_since_epoch())};
    ::timerfd_settime(heart_.get(), TFD_TIMER_ABSTIME, &at, nullptr);
}

void Loop::send_heartbeats() {
    std::uint64_t ignored;
    (void)!::read(heart_.get(), &ignored, sizeof ignored);
    auto now = Clock::now(), next = TimePoint::max();
    auto overdue = handler_.overdue();
    std::vector<std::shared_ptr<Connection>> due;
    for (auto& [fd, watched] : watched_) {
        auto& connection = watched.connection;
        if (!connection->waits() || connection->parked().empty()) continue;
        auto& parked = connection->parked();
        if (parked.heartbeat_due() <= now + kHeartbeatSlack) {
            parked.beaten(now);
            // Who answers no more must be noticed, and what is unsent says as much as a heartbeat.
            if (overdue <= parked.silence() && !connection->has_unsent()) due.push_back(connection);
        }
        next = std::min(next, parked.heartbeat_due());
    }
    next_heartbeat_ = TimePoint::max();
    if (next != TimePoint::max()) beat_by(next);
    for (auto& connection : due) {
        connection->queue_heartbeat();
        send(connection);
    }
}

// ---- one connection --------------------------------------------------------------------------

void Loop::watch(const std::shared_ptr<Connection>& connection, std::uint32_t events) {
    auto [entry, added] = watched_.try_emplace(connection->fd(), Watched{connection, events});
    if (!added && entry->second.events == events) return;
    entry->second = {connection, events};
    epoll_event event{events, {.fd = connection->fd()}};
    ::epoll_ctl(epoll_.get(), added ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, connection->fd(), &event);
}

void Loop::unwatch(const std::shared_ptr<Connection>& connection) {
    if (watched_.erase(connection->fd()) > 0)
        ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, connection->fd(), nullptr);
}

// The socket itself closes with its last owner.
void Loop::close(const std::shared_ptr<Connection>& connection) {
    unwatch(connection);
    ::shutdown(connection->fd(), SHUT_RDWR);
}

void Loop::on_ready(const std::shared_ptr<Connection>& connection) {
    if (send(connection)) read_requests(connection);
}

void Loop::read_requests(const std::shared_ptr<Connection>& connection) {
    Request request;
    for (int left = kRequestsPerTurn; left > 0; --left) {
        auto read = connection->read(request);
        if (!read.ok()) return refuse(connection, read.status().message());
        if (*read == Connection::Read::Closed) return close(connection);
        if (*read == Connection::Read::More)
            return watch(connection, connection->has_unsent() ? EPOLLIN | EPOLLOUT : EPOLLIN);
        if (!serve(connection, std::move(request))) return;
    }
    // More may have been read already, of which epoll knows nothing: being writable brings us back.
    watch(connection, EPOLLIN | EPOLLOUT);
}

void Loop::refuse(const std::shared_ptr<Connection>& connection, const std::string& reason) {
    ++traffic_.refused;
    log_warning("refused " + connection->peer() + ": " + reason);
    close(connection);
}

bool Loop::serve(const std::shared_ptr<Connection>& connection, Request request) {
    ++traffic_.requests;
    bool has_body = request.header.body_bytes > 0;
    if (connection->waits() || for_waiting(request.header.op))
        return serve_waiting(connection, std::move(request));
    auto outcome = handler_.handle(std::move(request));
    if (auto* work = std::get_if<Blocking>(&outcome)) {
        lend(connection, std::move(*work));
        return false;
    }
    if (has_body) {
        refuse(connection, "it sent a body where none is allowed");
        return false;
    }
    connection->answer(std::get<Answer>(std::move(outcome)));
    return send(connection);
}

bool Loop::serve_waiting(const std::shared_ptr<Connection>& connection, Request request) {
    const Header header = request.header;
    ParkedRequests& parked = connection->parked();
    const char* wrong = nullptr;
    if (!for_waiting(header.op))
        wrong = "it waits for answers, and asked for something else meanwhile";
    else if (header.body_bytes > 0)
        wrong = "it sent a body where none is allowed";
    else if (header.op == Op::Wait && !parked.is_next(header.request))
        wrong = "it gave a request a number that is not greater than those before";
    if (wrong != nullptr) {
        refuse(connection, wrong);
        return false;
    }
    if (header.op == Op::Cancel) {
        parked.cancel(header.request);
        return true;
    }
    if (parked.full())
        return reply(connection, header.request,
                     Status(Code::Busy, "too many calls wait on one connection; try again"));
    auto outcome = handler_.handle(std::move(request));
    auto* later = std::get_if<Parked>(&outcome);
    if (later == nullptr)
        return reply(connection, header.request, std::get<Answer>(outcome).status);
    auto cancel = later->start([this, weak = std::weak_ptr(connection),
                                number = header.request](Result<std::string> result) {
        post([this, weak, number, result = std::move(result)] {
            auto alive = weak.lock();
            if (alive && watched_.contains(alive->fd()) && alive->parked().answered(number))
                reply(alive, number, result);
        });
    });
    if (!cancel.ok()) return reply(connection, header.request, cancel.status());
    auto now = Clock::now();
    parked.add(header.request, std::chrono::milliseconds(header.deadline_ms), now,
               std::move(*cancel));
    beat_by(parked.heartbeat_due());
    return true;
}

bool Loop::reply(const std::shared_ptr<Connection>& connection, std::uint64_t request,
                 const Result<std::string>& result) {
    if (connection->reply(request, result)) return send(connection);
    refuse(connection, "it does not read its answers");
    return false;
}

bool Loop::send(const std::shared_ptr<Connection>& connection) {
    switch (connection->flush()) {
        case Connection::Flush::Done:
            return true;
        case Connection::Flush::NotWritable:
            watch(connection, connection->waits() ? EPOLLIN | EPOLLOUT : EPOLLOUT);
            return connection->waits();
        case Connection::Flush::NeedsDisk:
            lend_for_disk(connection);
            return false;
        case Connection::Flush::NeedsGrowth:
            watch(connection, 0);  // only its end is of interest
            connection->wait_for_growth([this, weak = std::weak_ptr(connection)] {
                post([this, weak] {
                    if (auto alive = weak.lock(); alive && watched_.contains(alive->fd()))
                        on_ready(alive);
                });
            });
            return false;
        case Connection::Flush::Broken:
            close(connection);
            return false;
    }
    return false;
}

void Loop::lend(std::shared_ptr<Connection> connection, Blocking work) {
    unwatch(connection);
    run_lent(std::move(connection), std::move(work));
}

void Loop::run_lent(std::shared_ptr<Connection> connection, Blocking work) {
    std::size_t lane = work.lane;
    pool_.run(lane, [this, connection = std::move(connection), work = std::move(work)] {
        serve_lent(connection, work);
    });
}

void Loop::serve_lent(const std::shared_ptr<Connection>& connection, Blocking work) {
    auto give_up = [&] { ::shutdown(connection->fd(), SHUT_RDWR); };
    const bool lingers = work.lingers;
    const std::size_t lane = work.lane;
    Outcome next = std::move(work);
    for (;;) {
        if (auto* blocking = std::get_if<Blocking>(&next)) {
            Body body = connection->lend_body();
            Answer answer = blocking->run(body);
            connection->take_back(body);
            connection->answer(std::move(answer));
            if (!body.at_end()) {
                connection->flush();
                return give_up();
            }
        } else {
            connection->answer(std::get<Answer>(std::move(next)));
        }
        // Most answers fit the socket's buffer and need not wait for the loop to wake.
        auto flushed = connection->flush();
        if (flushed == Connection::Flush::Broken) return give_up();
        Request request;
        if (!lingers || flushed != Connection::Flush::Done || !asks_again(*connection, request))
            return adopt(connection);
        // What waits is the loop's.
        if (for_waiting(request.header.op))
            return post([this, connection, request = std::move(request)] {
                if (serve(connection, request)) read_requests(connection);
            });
        ++traffic_.requests;
        bool has_body = request.header.body_bytes > 0;
        next = handler_.handle(std::move(request));
        auto* blocking = std::get_if<Blocking>(&next);
        if (blocking == nullptr && has_body) return give_up();
        if (blocking != nullptr && blocking->lane != lane)
            return run_lent(connection, std::move(*blocking));
    }
}

// Only as many linger as leave most threads of a lane to others.
bool Loop::asks_again(Connection& connection, Request& request) {
    struct Count {
        std::atomic<int>& lingering;
        int number = ++lingering;
        ~Count() { --lingering; }
    } count{lingering_};
    if (count.number > kMostLingering) return false;
    auto read = connection.read(request);  // it may have been sent along with the last
    if (read.ok() && *read == Connection::Read::More) {
        pollfd one{connection.fd(), POLLIN, 0};
        if (::poll(&one, 1, kLingerMs) <= 0) return false;
        read = connection.read(request);
    }
    // Whatever is wrong with what came, the loop finds out again.
    return read.ok() && *read == Connection::Read::Request;
}

void Loop::lend_for_disk(std::shared_ptr<Connection> connection) {
    unwatch(connection);
    pool_.run(disk_lane_, [this, connection = std::move(connection)] {
        connection->read_from_disk();
        adopt(connection);
    });
}

}  // namespace holdfast
