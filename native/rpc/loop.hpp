// A network thread: an epoll loop over its connections. It never blocks on anything else; blocking
// work goes to the pool, together with the connection it concerns, and comes back by post(), as do
// the answers of parked requests.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/fd.hpp"
#include "base/mutex.hpp"
#include "rpc/connection.hpp"
#include "rpc/handler.hpp"
#include "rpc/pool.hpp"

namespace holdfast {

// Shared by the loops of one server.
struct Traffic {
    std::atomic<std::uint64_t> connections{0};  // open now
    std::atomic<std::uint64_t> requests{0};
    std::atomic<std::uint64_t> refused{0};  // connections
};

// How long a connection may be silent.
struct Silence {
    Duration resting = std::chrono::seconds(120);    // between requests
    Duration unfinished = std::chrono::seconds(30);  // within a head or an answer
    Duration stranger = std::chrono::seconds(2);     // until the handshake is complete
    Duration look = std::chrono::seconds(5);         // so often is it looked for
};

class Loop {
  public:
    Loop(Handler& handler, Pool& pool, std::size_t disk_lane, Silence silence, Traffic& traffic);
    ~Loop();  // stops

    void start();
    void stop();

    // Thread-safe.
    void post(std::function<void()> work);
    void adopt(std::shared_ptr<Connection> connection);

    // On the loop's thread, or before start(): calls `accept` whenever `listener` is readable;
    // while it returns false the listener rests for a second.
    void listen(Fd listener, std::function<bool(int listener)> accept);

  private:
    struct Listener {
        Fd fd;
        std::function<bool(int)> accept;
        bool resting = false;
    };

    void run();
    void turn();
    void run_posted();
    void sweep();
    void send_heartbeats();
    void beat_by(TimePoint due);
    void on_ready(const std::shared_ptr<Connection>& connection);
    void read_requests(const std::shared_ptr<Connection>& connection);
    // Each is true if the connection is ready for its next request.
    bool serve(const std::shared_ptr<Connection>& connection, Request request);
    bool serve_waiting(const std::shared_ptr<Connection>& connection, Request request);
    bool send(const std::shared_ptr<Connection>& connection);
    bool reply(const std::shared_ptr<Connection>& connection, std::uint64_t request,
               const Result<std::string>& result);
    void refuse(const std::shared_ptr<Connection>& connection, const std::string& reason);
    void lend(std::shared_ptr<Connection> connection, Blocking work);
    // On threads of the pool, which have the connection to themselves.
    void run_lent(std::shared_ptr<Connection> connection, Blocking work);
    void serve_lent(const std::shared_ptr<Connection>& connection, Blocking work);
    bool asks_again(Connection& connection, Request& request);
    void lend_for_disk(std::shared_ptr<Connection> connection);
    void watch(const std::shared_ptr<Connection>& connection, std::uint32_t events);
    void unwatch(const std::shared_ptr<Connection>& connection);
    void close(const std::shared_ptr<Connection>& connection);

    Handler& handler_;
    Pool& pool_;
    const std::size_t disk_lane_;
    const Silence silence_;
    Traffic& traffic_;
    Fd epoll_, wake_, timer_, heart_;
    TimePoint next_heartbeat_ =
        TimePoint::max();  // when heart_ rings; it rests without parked ones
    std::thread thread_;
    std::atomic<bool> stopping_{false};
    std::atomic<std::thread::id> runs_on_{};
    bool posts_to_itself_ = false;  // only its own thread looks at it

    std::atomic<int> lingering_{0};

    std::vector<Listener> listeners_;
    struct Watched {
        std::shared_ptr<Connection> connection;
        std::uint32_t events;
    };
    std::unordered_map<int, Watched> watched_;

    Mutex mutex_;
    std::vector<std::function<void()>> posted_ GUARDED_BY(mutex_);
};

}  // namespace holdfast
