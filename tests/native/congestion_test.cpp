// Which congestion control connections have.
#include "rpc/congestion.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "support.hpp"

using namespace holdfast;
using namespace holdfast::test;

namespace {

std::string control_of(int socket) {
    char name[16] = {};
    socklen_t size = sizeof name - 1;
    REQUIRE(::getsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name, &size) == 0);
    return name;
}

std::string chosen(const std::string& wanted) {
    auto name = choose_congestion_control(wanted);
    REQUIRE(name.ok());
    return *name;
}

// Other tests go on with what is the default.
struct Restored {
    ~Restored() { (void)choose_congestion_control("auto"); }
};

}  // namespace

TEST_CASE("both sides of a connection have the congestion control that was chosen") {
    Restored after;
    for (std::string wanted : {"reno", "auto"}) {
        std::string name = chosen(wanted);
        auto any = Address::parse("tcp:127.0.0.1:0");
        REQUIRE(any.ok());
        auto listener = listen_on(*any);
        REQUIRE(listener.ok());
        auto bound = Address::of(*listener);
        REQUIRE(bound.ok());
        auto channel = Channel::open(*bound);
        REQUIRE(channel.ok());
        REQUIRE(::connect(channel->fd(), bound->get(), bound->size) == 0);
        Fd accepted;
        CHECK(eventually([&] {
            accepted = Fd(::accept4(listener->get(), nullptr, nullptr, SOCK_CLOEXEC));
            return bool(accepted);
        }));
        CHECK(control_of(channel->fd()) == name);
        CHECK(control_of(accepted.get()) == name);
        if (wanted == "auto") CHECK_FALSE(name.starts_with("bbr"));
        if (wanted == "reno") CHECK(name == "reno");
    }
}

TEST_CASE("a congestion control that the system does not have is refused with those it has") {
    Restored after;
    std::string before = chosen("auto");
    auto refused = choose_congestion_control("nosuch");
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.status().code() == Code::BadInput);
    CHECK(refused.status().message().find("reno") != std::string::npos);
}
