// Where an agent listens: "unix:/path" or "tcp:ADDRESS:PORT", numeric, so that nothing asks a
// name server. IPv6 addresses stand in brackets.
#pragma once

#include <sys/socket.h>

#include <string>

#include "base/fd.hpp"
#include "base/status.hpp"

namespace holdfast {

struct Address {
    std::string text;
    sockaddr_storage storage{};
    socklen_t size = 0;

    bool is_unix() const { return storage.ss_family == AF_UNIX; }
    const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }

    static Result<Address> parse(const std::string& text);
    // The address that a listening socket is bound to.
    static Result<Address> of(const Fd& listener);
    static std::string describe(const Address& address);
};

// A listening, non-blocking socket. A Unix path must not exist yet.
Result<Fd> listen_on(const Address& address);

}  // namespace holdfast
