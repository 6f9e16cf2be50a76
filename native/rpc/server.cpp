#include "rpc/server.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/log.hpp"

namespace holdfast {
namespace {

// What one listener may let in before others have their turn.
constexpr int kAcceptsPerTurn = 64;

// Half of the files that this process may have open, if that is less: the rest is for what is sent.
std::size_t affordable(std::size_t connections) {
    rlimit files{};
    if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return connections;
    return std::min<std::size_t>(connections, files.rlim_cur / 2);
}

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

Server::SocketFile Server::socket_file(const std::string& path) {
    struct stat seen{};
    ::lstat(path.c_str(), &seen);
    return {path, seen.st_dev, seen.st_ino};
}

Server::Server(Handler& handler, ServerOptions options)
    : handler_(handler),
      options_(std::move(options)),
      admission_(affordable(options_.max_connections)),
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
    if (local) sockets_.push_back(socket_file(text.substr(5)));
    loops_.front().listen(std::move(*listener),
                          [this, local](int fd) { return accept(fd, local); });
    return bound->text;
}

void Server::start() {
    for (auto& loop : loops_) loop.start();
}

void Server::stop() {
    // Another agent may have taken the name of one whose session was removed.
    for (auto& ours : sockets_)
        if (socket_file(ours.path) == ours) ::unlink(ours.path.c_str());
    sockets_.clear();
    admission_.end();  // a pool thread may wait for one of them
    // The pool first: what it runs hands connections back to the loops.
    pool_.stop();
    for (auto& loop : loops_) loop.stop();
}

bool Server::accept(int listener, bool local) {
    for (int left = kAcceptsPerTurn; left > 0; --left) {
        Fd fd(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (!fd) return errno != EMFILE && errno != ENFILE && errno != ENOMEM && errno != ENOBUFS;
        int number = fd.get();
        std::string peer = name_of_peer(number, local);
        Status trusted = local ? check_peer_uid(number) : Status();
        auto entered = trusted.ok() ? admission_.enter(number, local) : Result<bool>(trusted);
        if (!entered.ok()) {
            ++traffic_.refused;
            log_warning("refused " + peer + ": " + entered.status().message());
            continue;
        }
        if (*entered) {
            ++traffic_.refused;
            log_warning("closed the oldest connection without a handshake to accept " + peer);
        }
        int on = 1;
        if (!local) ::setsockopt(number, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        ++traffic_.connections;
        // It leaves before the descriptor is closed, so that the number cannot be another's.
        auto forget = [this, number](Connection* connection) {
            admission_.leave(number);
            --traffic_.connections;
            delete connection;
        };
        std::shared_ptr<Connection> connection(
            new Connection(std::move(fd), local, peer, options_.job_key,
                           [this, number] { admission_.prove(number); }),
            forget);
        loops_[next_loop_++ % loops_.size()].adopt(std::move(connection));
    }
    return true;
}

}  // namespace holdfast
