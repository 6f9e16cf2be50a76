// Dialling over TCP: a server that is gone without a word, slow, or late with its proof.
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <thread>

#include "proxy.hpp"
#include "rpc/auth.hpp"
#include "rpc/channel.hpp"
#include "support.hpp"

using namespace holdfast;
using namespace holdfast::test;

namespace {

// Does what it is told with the first connection, and takes no other.
class Listener {
  public:
    explicit Listener(std::function<void(Fd)> serve)
        : fd_(std::move(*listen_on(*Address::parse("tcp:127.0.0.1:0")))),
          tcp(Address::of(fd_)->text),
          thread_([this, serve = std::move(serve)] {
              pollfd waiting{fd_.get(), POLLIN, 0};
              if (::poll(&waiting, 1, 20'000) == 1)
                  serve(Fd(::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC)));
          }) {}
    ~Listener() { thread_.join(); }

  private:
    Fd fd_;

  public:
    const std::string tcp;

  private:
    std::thread thread_;
};

// Closes a socket without a word to the other side, as the kernel does with the half of a
// connection whose listener is closed while it is made. Gives why not, if it may not.
int vanish(Fd fd) {
    int on = TCP_REPAIR_ON;
    return ::setsockopt(fd.get(), IPPROTO_TCP, TCP_REPAIR, &on, sizeof on) == 0 ? 0 : errno;
}

Status dial(const std::string& text, Duration deadline) {
    auto address = Address::parse(text);
    auto channel = Channel::open(*address);
    REQUIRE(channel.ok());
    return channel->connect(*address, kKey, deadline);
}

}  // namespace

TEST_CASE("who dials one that is gone without a word learns so before its deadline ends") {
    for (auto pause : {0ms, 700ms}) {
        int error = -1;
        Status status;
        {
            Listener listener([&](Fd fd) {
                std::this_thread::sleep_for(pause);
                error = vanish(std::move(fd));
            });
            status = dial(listener.tcp, kDeadline);
        }
        if (error == EPERM) {
            MESSAGE("skipped: only root may drop a connection without a word");
            return;
        }
        REQUIRE(error == 0);
        CHECK(status.code() == Code::Unavailable);
    }
}

TEST_CASE("one that is slow to speak is waited for") {
    Node node;
    Proxy proxy(node.tcp);
    proxy.held = true;
    std::thread later([&] {
        std::this_thread::sleep_for(800ms);
        proxy.held = false;
    });
    Status status = dial(proxy.tcp, kDeadline);
    later.join();
    CHECK(status.ok());
    CHECK(node.agent().server().traffic().refused == 0);
}

TEST_CASE("who gives up in the middle of a handshake has done nothing wrong") {
    Node node;
    Fd fd = raw_connection(node.tcp);
    CHECK(receive_some(fd.get(), 1000).size() == kChallengeBytes);
    send_all(fd.get(), "abc");
    ::shutdown(fd.get(), SHUT_WR);
    CHECK(receive_some(fd.get(), 1000).empty());
    CHECK(eventually([&] { return node.agent().server().traffic().connections == 0; }));
    CHECK(node.agent().server().traffic().refused == 0);
}

TEST_CASE("a handshake has one deadline for all of its steps") {
    Listener listener([](Fd fd) {
        Nonce ours = fresh_nonce(), theirs;
        std::string challenge(kChallengeBytes, '\0'), answer;
        encode_challenge(ours, challenge.data());
        std::this_thread::sleep_for(800ms);
        send_all(fd.get(), challenge);
        while (answer.size() < kAnswerBytes) {
            std::string more = receive_some(fd.get(), kAnswerBytes - answer.size());
            if (more.empty()) return;
            answer += more;
        }
        std::memcpy(theirs.data(), answer.data(), theirs.size());
        Digest proof = *server_proof(kKey, ours, theirs);
        std::this_thread::sleep_for(800ms);
        send_all(fd.get(), {reinterpret_cast<char*>(proof.data()), proof.size()});
    });
    CHECK(dial(listener.tcp, 1s).code() == Code::DeadlineMissed);
}
