#include "rpc/server.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>

#include "base/log.hpp"

namespace holdfast {
namespace {

std::string name_of_peer(int fd, bool local) {
    if (local) {
        ucred peer{};
        socklen_t size = sizeof peer;
        ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size);
        return "process " + std::to_string(peer.pid);
    }
    Address address;
    address.size = sizeof address.storage;
    ::getpeername(fd, reinterpret_cast<sockaddr*>(&address.storage), &address.size);
    return Address::describe(address);
}

}  // namespace

Server::Server(Handler& handler, ServerOptions options)
    : handler_(handler),
      options_(std::move(options)),
      pool_(options_.lanes, options_.threads_per_lane) {
    for (std::size_t i = 0; i < options_.loops; ++i)
        loops_.emplace_back(handler_, pool_, options_.disk_lane, options_.silence, traffic_);
}

Server::~Server() {
    stop();
}

Result<std::string> Server::listen(const std::string& text) {
    auto address = Address::parse(text);
    if (!address.ok()) return address.take_status();
    if (!address->is_unix() && options_.job_key.size() < kKeyBytes)
        return Status(Code::BadInput, "a job key of " + std::to_string(options_.job_key.size()) +
                                          " bytes is too short to listen on " + text + "; use " +
                                          std::to_string(kKeyBytes));
    auto listener = listen_on(*address);
    if (!listener.ok()) return listener.take_status();
    auto bound = Address::of(*listener);
    if (!bound.ok()) return bound.take_status();
    bool local = address->is_unix();
    if (local) socket_paths_.push_back(text.substr(5));
    loops_.front().listen(std::move(*listener),
                          [this, local](int fd) { return accept(fd, local); });
    return bound->text;
}

void Server::start() {
    for (auto& loop : loops_) loop.start();
}

void Server::stop() {
    for (auto& path : socket_paths_) ::unlink(path.c_str());
    socket_paths_.clear();
    {
        std::lock_guard lock(mutex_);
        stopping_ = true;
        for (int fd : open_) ::shutdown(fd, SHUT_RDWR);
    }
    // The pool first: what it runs hands connections back to the loops.
    pool_.stop();
    for (auto& loop : loops_) loop.stop();
}

bool Server::accept(int listener, bool local) {
    for (;;) {
        Fd fd(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (!fd) return errno != EMFILE && errno != ENFILE && errno != ENOMEM && errno != ENOBUFS;
        std::string peer = name_of_peer(fd.get(), local);
        Status trusted = local ? check_peer_uid(fd.get()) : Status();
        if (trusted.ok() && traffic_.connections >= options_.max_connections)
            trusted = Status(Code::Full, "there are " + std::to_string(options_.max_connections) +
                                             " connections already");
        if (!trusted.ok()) {
            ++traffic_.refused;
            log_warning("refused " + peer + ": " + trusted.message());
            continue;
        }
        int on = 1;
        if (!local) ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        int number = fd.get();
        {
            std::lock_guard lock(mutex_);
            if (stopping_) return true;  // a pool thread might wait for it after all were ended
            open_.insert(number);
        }
        ++traffic_.connections;
        // The entry goes before the descriptor is closed, so that the number cannot be another's.
        auto forget = [this, number](Connection* connection) {
            {
                std::lock_guard lock(mutex_);
                open_.erase(number);
            }
            --traffic_.connections;
            delete connection;
        };
        std::shared_ptr<Connection> connection(
            new Connection(std::move(fd), local, peer, options_.job_key), forget);
        loops_[next_loop_++ % loops_.size()].adopt(std::move(connection));
    }
}

}  // namespace holdfast
