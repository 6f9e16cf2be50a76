// Who may connect: both sides prove that they hold the key, and neither proof serves the other.
#include "rpc/auth.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>
#include <numeric>
#include <thread>

#include "rpc/channel.hpp"
#include "support.hpp"

using namespace holdfast;
using namespace holdfast::test;

namespace {

Status dial(const std::string& text, const std::string& key) {
    auto address = Address::parse(text);
    REQUIRE(address.ok());
    auto channel = Channel::open(*address);
    REQUIRE(channel.ok());
    return channel->connect(*address, key, kDeadline);
}

}  // namespace

TEST_CASE("proofs depend on role, key and both nonces") {
    Nonce a = fresh_nonce(), b = fresh_nonce();
    CHECK(a != b);
    CHECK(*client_proof("key", a, b) != *server_proof("key", a, b));
    CHECK(*client_proof("key", a, b) != *client_proof("yek", a, b));
    CHECK(*client_proof("key", a, b) != *client_proof("key", b, a));
    for (auto proof : {client_proof, server_proof}) {
        CHECK(*proof("key", a, b) != *proof("key", a, a));
        CHECK(*proof("key", a, b) != *proof("key", b, b));
    }
    char challenge[kChallengeBytes];
    encode_challenge(a, challenge);
    CHECK(*decode_challenge(challenge) == a);
    challenge[4] ^= 1;  // the version
    CHECK(decode_challenge(challenge).status().code() == Code::Damaged);
}

TEST_CASE("proofs are those of the protocol") {
    Nonce server, client;
    std::iota(server.begin(), server.end(), std::uint8_t{0});
    std::iota(client.begin(), client.end(), std::uint8_t{32});
    CHECK(hex(*client_proof("key", server, client)) ==
          "73d2149d35a277ae9db93dbc7fa1946bf6a9e73addcd00d6a9db7014f5fd7dd0");
    CHECK(hex(*server_proof("key", server, client)) ==
          "483825fec4ae21c3c536873a4a72a93116f4bcd99b4217648bc62e5872387b17");
}

TEST_CASE("a client with the wrong key is refused, and told so") {
    Node node;
    CHECK(dial(node.tcp, kKey).ok());
    Status refused = dial(node.tcp, "another key");
    CHECK(refused.code() == Code::Refused);
    CHECK(eventually([&] { return node.agent().server().traffic().refused == 1; }));
    CHECK(dial(node.tcp, kKey).ok());
}

TEST_CASE("a server with the wrong key is refused by the client") {
    // One that trusts everybody and makes up its proof.
    Fd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(::bind(listener.get(), reinterpret_cast<sockaddr*>(&any), sizeof any) == 0);
    REQUIRE(::listen(listener.get(), 4) == 0);
    auto bound = Address::of(listener);
    REQUIRE(bound.ok());
    std::thread impostor([&] {
        Fd fd(::accept(listener.get(), nullptr, nullptr));
        Nonce nonce = fresh_nonce();
        char challenge[kChallengeBytes];
        encode_challenge(nonce, challenge);
        send_all(fd.get(), {challenge, sizeof challenge});
        std::string answer;
        while (answer.size() < kAnswerBytes) {
            std::string more = receive_some(fd.get(), kAnswerBytes - answer.size());
            if (more.empty()) return;
            answer += more;
        }
        // What it got is of no use to it: the client's own proof sent back is none of a server.
        send_all(fd.get(), answer.substr(sizeof(Nonce)));
        receive_some(fd.get(), 1);
    });
    Status refused = dial(bound->text, kKey);
    CHECK(refused.code() == Code::Refused);
    impostor.join();
}

TEST_CASE("nothing is read from a connection that has not proved itself") {
    Node node;
    Fd fd = raw_connection(node.tcp);
    CHECK(receive_some(fd.get(), 1000).size() == kChallengeBytes);
    std::string request = frame({.op = Op::List}, ListMessage{}.encode());
    request.resize(kAnswerBytes + 100, '\0');
    send_all(fd.get(), request);
    std::string reply = receive_some(fd.get(), 1000);
    CHECK(reply == std::string(kProofBytes, '\0'));  // "we do not trust you"
    CHECK(receive_some(fd.get(), 1000).empty());
    CHECK(node.agent().server().traffic().requests == 0);
}

TEST_CASE("nobody listens on TCP without a proper key") {
    TempDir dir;
    auto agent = Agent::make({"", {{{dir / "mem", 1 << 20}, {dir / "disk", 1 << 20}}}, 0});
    REQUIRE(agent.ok());
    CHECK((*agent)->server().listen("tcp:127.0.0.1:0").status().code() == Code::BadInput);
    CHECK((*agent)->server().listen("unix:" + (dir / "socket")).ok());
}

TEST_CASE("a port or a socket in use is a clear refusal") {
    Node node;
    Node other;
    CHECK(other.agent().server().listen(node.tcp).status().code() == Code::Busy);
    CHECK(other.agent().server().listen(node.local).status().code() == Code::Busy);
    for (std::string bad : {"", "tcp:", "tcp:localhost:1", "tcp:1.2.3.4:99999",
                            "tcp:1.2.3.4:", "udp:1.2.3.4:5", "unix:", "tcp:[::1:5"})
        CHECK(Address::parse(bad).status().code() == Code::BadInput);
    CHECK(Address::parse("unix:/" + std::string(200, 'x')).status().code() == Code::BadInput);
    CHECK(Address::parse("tcp:[::1]:5").ok());
}
