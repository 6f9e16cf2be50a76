#include "rpc/address.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/un.h>

#include <cerrno>
#include <charconv>
#include <cstddef>

#include "rpc/congestion.hpp"

namespace holdfast {
namespace {

Status bad(const std::string& text) {
    return Status(Code::BadInput, "'" + text +
                                      "' is not an address; write unix:/PATH or tcp:1.2.3.4:PORT "
                                      "with a numeric address");
}

}  // namespace

Result<Address> Address::parse(const std::string& text) {
    Address address;
    address.text = text;
    if (text.starts_with("unix:")) {
        auto* un = reinterpret_cast<sockaddr_un*>(&address.storage);
        std::string path = text.substr(5);
        if (path.empty() || path.size() >= sizeof un->sun_path)
            return Status(Code::BadInput, "socket path '" + path + "' must have 1 to " +
                                              std::to_string(sizeof un->sun_path - 1) +
                                              " bytes; choose a shorter session directory");
        un->sun_family = AF_UNIX;
        path.copy(un->sun_path, path.size());
        address.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() + 1);
        return address;
    }
    auto colon = text.rfind(':');
    if (!text.starts_with("tcp:") || colon <= 4) return bad(text);
    std::uint16_t port = 0;
    const char* end = text.data() + text.size();
    auto [stop, error] = std::from_chars(text.data() + colon + 1, end, port);
    if (error != std::errc{} || stop != end) return bad(text);
    std::string host = text.substr(4, colon - 4);
    if (host.starts_with('[') && host.ends_with(']')) {
        auto* in6 = reinterpret_cast<sockaddr_in6*>(&address.storage);
        in6->sin6_family = AF_INET6;
        in6->sin6_port = htons(port);
        address.size = sizeof *in6;
        if (::inet_pton(AF_INET6, host.substr(1, host.size() - 2).c_str(), &in6->sin6_addr) != 1)
            return bad(text);
    } else {
        auto* in = reinterpret_cast<sockaddr_in*>(&address.storage);
        in->sin_family = AF_INET;
        in->sin_port = htons(port);
        address.size = sizeof *in;
        if (::inet_pton(AF_INET, host.c_str(), &in->sin_addr) != 1) return bad(text);
    }
    return address;
}

Result<Address> Address::of(const Fd& listener) {
    Address address;
    address.size = sizeof address.storage;
    if (::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address.storage),
                      &address.size) != 0)
        return system_failure(Code::HoldfastError, "getsockname", errno);
    address.text = describe(address);
    return address;
}

std::string Address::describe(const Address& address) {
    char host[INET6_ADDRSTRLEN] = {};
    if (address.is_unix())
        return std::string("unix:") +
               reinterpret_cast<const sockaddr_un*>(&address.storage)->sun_path;
    if (address.storage.ss_family == AF_INET6) {
        auto* in6 = reinterpret_cast<const sockaddr_in6*>(&address.storage);
        ::inet_ntop(AF_INET6, &in6->sin6_addr, host, sizeof host);
        return std::string("tcp:[") + host + "]:" + std::to_string(ntohs(in6->sin6_port));
    }
    auto* in = reinterpret_cast<const sockaddr_in*>(&address.storage);
    ::inet_ntop(AF_INET, &in->sin_addr, host, sizeof host);
    return std::string("tcp:") + host + ":" + std::to_string(ntohs(in->sin_port));
}

Result<Fd> listen_on(const Address& address) {
    Fd fd(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd)
        return system_failure(Code::HoldfastError, "cannot create a socket for " + address.text,
                              errno);
    int on = 1;
    if (!address.is_unix()) {
        ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        set_congestion_control(fd.get());
    }
    if (::bind(fd.get(), address.get(), address.size) != 0 || ::listen(fd.get(), 512) != 0) {
        Code code = errno == EADDRINUSE ? Code::Busy : Code::HoldfastError;
        return system_failure(code, "cannot listen on " + address.text, errno);
    }
    return fd;
}

}  // namespace holdfast
