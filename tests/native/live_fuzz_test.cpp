// Spoilt frames sent to a live agent over real sockets, while a good client goes on and compares.
#include <sys/socket.h>
#include <sys/time.h>

#include <atomic>
#include <thread>

#include "fuzz.hpp"
#include "support.hpp"

using namespace holdfast;
using namespace holdfast::test;

TEST_CASE("an agent lives through thousands of spoilt frames, and a good client does not notice") {
    Node node(32 << 20, 32 << 20);
    std::atomic<bool> done{false};
    std::atomic<int> wrong{0}, rounds{0};
    std::thread good([&] {
        AgentClient remote(kKey);
        for (int i = 0; !done || i < 20; ++i) {
            std::string key = "good" + std::to_string(i);
            std::string bytes =
                random_bytes(i % 2 ? 2'000 : 100'000, static_cast<std::uint64_t>(i));
            const std::string& address = i % 4 < 2 ? node.local : node.tcp;
            if (!remote.put({address}, {node.number}, key, bytes, Tier::Memory, kDeadline).ok())
                ++wrong;
            auto got = get(remote, address, {key});
            if (!got.ok() || *got != bytes) ++wrong;
            if (!remote.drop(address, {key, {node.number}}, kDeadline).ok()) ++wrong;
            ++rounds;
        }
    });
    std::mt19937_64 random(7);
    auto seeds = samples(node.number);
    Fd fd;
    for (int i = 0; i < 3000; ++i) {
        const auto& seed = seeds[random() % seeds.size()];
        Header header;
        header.op = seed.op;
        header.flags =
            static_cast<std::uint16_t>(random() % 4 ? 0 : random() & kAllFlags & ~kReply);
        header.body_bytes = seed.body.size();
        header.body_crc = crc32c(0, seed.body.data(), seed.body.size());
        header.deadline_ms = 10;
        std::string meta = seed.meta, body = seed.body;
        if (random() % 2) mutate(meta, random);
        std::string head(kHeaderBytes, '\0');
        encode_header(header, meta, head.data());
        if (random() % 3 == 0) {
            mutate(head, random);
            head.resize(kHeaderBytes, '\0');
            if (random() % 2) mend_checksum(head, meta);
        }
        if (random() % 4 == 0) mutate(body, random);
        if (!fd || random() % 8 == 0) {
            fd = raw_connection(node.local);
            timeval moment{0, 1000};
            ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &moment, sizeof moment);
        }
        char answer[4096];
        if (!send_all(fd.get(), head + meta + body) ||
            ::recv(fd.get(), answer, sizeof answer, 0) == 0)
            fd.reset();  // refused: the next one needs a new connection
    }
    fd.reset();
    done = true;
    good.join();
    CHECK(wrong == 0);
    CHECK(rounds >= 20);
    CHECK(node.agent().server().traffic().refused > 100);
    CHECK(node.agent().server().traffic().requests > 500);
    CHECK(eventually([&] { return node.store().usage(Tier::Memory).reserved == 0; }));
    CHECK(eventually([&] { return node.store().usage(Tier::Disk).reserved == 0; }));
}
