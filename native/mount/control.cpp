#include "mount/control.hpp"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cerrno>
#include <chrono>
#include <system_error>
#include <thread>

#include "base/thread.hpp"

namespace holdfast::mount {
namespace {

// Longer than any request that makes sense.
constexpr std::uint32_t kLongest = 16 << 20;
constexpr auto kRest = std::chrono::milliseconds(20);

bool receive(int socket, void* into, std::size_t size) {
    return ::recv(socket, into, size, MSG_WAITALL) == static_cast<ssize_t>(size);
}

bool hear(int socket, std::vector<std::string>& fields) {
    std::uint32_t length = 0;
    if (!receive(socket, &length, sizeof length) || length > kLongest) return false;
    std::string text(length, '\0');
    if (length != 0 && !receive(socket, text.data(), length)) return false;
    fields.clear();
    for (std::size_t begin = 0; begin < text.size(); begin += fields.back().size() + 1)
        fields.emplace_back(text.c_str() + begin);
    return true;
}

bool say(int socket, const std::string& text) {
    auto length = static_cast<std::uint32_t>(text.size());
    std::string frame(reinterpret_cast<const char*>(&length), sizeof length);
    frame += text;
    for (std::size_t sent = 0; sent < frame.size();) {
        ssize_t more = ::send(socket, frame.data() + sent, frame.size() - sent, MSG_NOSIGNAL);
        if (more < 0) return false;
        sent += static_cast<std::size_t>(more);
    }
    return true;
}

bool is_same_user(int socket) {
    ucred peer{};
    socklen_t size = sizeof peer;
    return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
           peer.uid == ::geteuid();
}

}  // namespace

Status Control::listen() {
    const std::string& path = mount_.settings.control;
    if (path.empty()) return {};
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path)
        return Status(Code::BadInput, path + " is too long for a socket");
    path.copy(address.sun_path, path.size());
    socket_ = Fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ::unlink(path.c_str());  // of one that died
    mode_t before = ::umask(0177);
    bool bound = ::bind(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
    ::umask(before);
    if (!bound || ::listen(socket_.get(), 16) != 0)
        return system_failure(Code::HoldfastError, "cannot listen at " + path, errno);
    start_thread([this] { accept_all(); }).detach();
    return {};
}

void Control::accept_all() {
    for (;;) {
        int connection = ::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC);
        if (connection < 0) {  // e.g. no descriptor is free: who wants to be heard stays there
            std::this_thread::sleep_for(kRest);
            continue;
        }
        try {
            start_thread([this, connection] { serve(connection); }).detach();
        } catch (const std::system_error&) {
            serve(connection);  // the limit of the user or of the cgroup
        }
    }
}

void Control::serve(int connection) {
    Fd socket(connection);
    if (!is_same_user(connection)) return;
    std::vector<std::string> fields;
    while (hear(connection, fields) && !fields.empty())
        if (!say(connection, answer(fields))) return;
}

std::string Control::answer(const std::vector<std::string>& fields) {
    std::string text;
    auto add = [&](const std::string& field) { text.append(field).push_back('\0'); };
    if (fields[0] == "ping") {
        add(workers_.goes_on() ? "well" : "full");
    } else if (fields[0] == "refresh") {
        for (std::size_t i = 1; i < fields.size(); ++i) mount_.refresh(fields[i]);
    } else if (fields[0] == "status") {
        const Counters& counters = mount_.counters;
        auto number = [&](const char* name, std::uint64_t value) {
            add(std::string(name) + "=" + std::to_string(value));
        };
        number("nodes", mount_.inodes.size());
        number("requests", counters.requests);
        number("listings", counters.listings);
        number("listings_from_storage", counters.listings_read);
        number("files", counters.files);
        number("files_from_storage", counters.files_read);
        number("bytes", counters.bytes);
        number("stale", counters.stale);
    }
    return text;
}

}  // namespace holdfast::mount
