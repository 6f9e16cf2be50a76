// The server: listeners, a few network threads and a pool for what blocks.
//
// start(), listen() and stop() are for one thread. Memory is bounded whatever clients push: a
// connection holds one head of a request, or a limited number of parked ones and unread answers,
// and bodies are read by the threads of the pool only.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "rpc/address.hpp"
#include "rpc/admission.hpp"
#include "rpc/loop.hpp"
#include "rpc/pool.hpp"

namespace holdfast {

struct ServerOptions {
    std::string job_key;
    std::size_t loops = 2;
    std::size_t lanes = 1;
    std::size_t disk_lane = 0;  // of the pool, for reads that may block
    std::size_t threads_per_lane = 32;
    std::size_t max_connections = 4096;
    Silence silence = {};
};

class Server {
  public:
    Server(Handler& handler, ServerOptions options);
    ~Server();  // stops
    Server(const Server&) = delete;
    Server& operator=(const Server&) = delete;

    // Listens there; for TCP port 0 the kernel chooses. Gives the address as bound.
    Result<std::string> listen(const std::string& address);
    void start();
    // Closes all connections and waits for the threads.
    void stop();

    Pool& pool() { return pool_; }
    const Traffic& traffic() const { return traffic_; }

  private:
    struct SocketFile {
        std::string path;
        dev_t device;
        ino_t inode;
        bool operator==(const SocketFile&) const = default;
    };
    static SocketFile socket_file(const std::string& path);
    bool accept(int listener, bool local);

    Handler& handler_;
    const ServerOptions options_;
    Traffic traffic_;
    Admission admission_;
    Pool pool_;
    std::deque<Loop> loops_;
    std::atomic<std::size_t> next_loop_{0};
    std::vector<SocketFile> sockets_;  // to remove at the end
};

}  // namespace holdfast
