#include "rpc/congestion.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <atomic>
#include <cerrno>
#include <fstream>
#include <set>

#include "base/fd.hpp"
#include "base/mutex.hpp"

namespace holdfast {
namespace {

// Read without a lock: a child that was forked meanwhile would wait for it for ever.
std::atomic<const std::string*> chosen = nullptr;

bool set(int socket, const std::string& name) {
    return ::setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name.data(),
                        static_cast<socklen_t>(name.size())) == 0;
}

std::string control_of(int socket) {
    char name[16] = {};  // TCP_CA_NAME_MAX of the kernel
    socklen_t size = sizeof name - 1;
    if (::getsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name, &size) != 0) return "";
    return name;
}

// Whether the socket has the control that is wanted now.
bool ask_for(int socket, const std::string& wanted) {
    if (wanted == "system") return true;
    if (wanted != "auto") return set(socket, wanted);
    // An unprivileged user may choose reno anywhere.
    if (control_of(socket).starts_with("bbr") && !set(socket, "cubic")) set(socket, "reno");
    return true;
}

std::string allowed() {
    std::ifstream file("/proc/sys/net/ipv4/tcp_allowed_congestion_control");
    std::string names;
    std::getline(file, names);
    return names;
}

}  // namespace

Result<std::string> choose_congestion_control(const std::string& wanted) {
    Fd probe(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!probe) return system_failure(Code::HoldfastError, "no socket", errno);
    if (!ask_for(probe.get(), wanted))
        return Status(Code::BadInput, "this system does not allow the congestion control '" +
                                          wanted + "'; use auto, system or one of: " + allowed());
    static Mutex mutex;
    static std::set<std::string> names;
    Lock lock(mutex);
    chosen = &*names.insert(wanted).first;
    return control_of(probe.get());
}

void set_congestion_control(int socket) {
    const std::string* wanted = chosen;
    ask_for(socket, wanted ? *wanted : "auto");
}

}  // namespace holdfast
