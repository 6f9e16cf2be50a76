// Control calls: asked on one thread, answered on another, never left behind.
#include "rpc/calls.hpp"

#include <poll.h>

#include <thread>

#include "support.hpp"

using namespace holdfast;
using namespace holdfast::test;

namespace {

bool readable(int fd) {
    pollfd entry{fd, POLLIN, 0};
    return ::poll(&entry, 1, 0) == 1;
}

}  // namespace

TEST_CASE("a call is handed over, answered and forgotten") {
    Calls calls;
    CHECK_FALSE(readable(calls.fd()));
    std::thread python([&] {
        eventually([&] { return readable(calls.fd()); });
        auto call = calls.next();
        REQUIRE(call.has_value());
        CHECK(call->service == "service");
        CHECK(call->method == "method");
        calls.answer(call->id, call->message + " back");
        calls.answer(call->id, std::string("twice"));  // must not disturb anybody
        CHECK_FALSE(calls.next().has_value());
        CHECK_FALSE(readable(calls.fd()));
    });
    auto answer = calls.ask("service", "method", "there and", kDeadline);
    REQUIRE(answer.ok());
    CHECK(*answer == "there and back");
    python.join();
}

TEST_CASE("an answer can be a failure") {
    Calls calls;
    std::thread python([&] {
        eventually([&] { return readable(calls.fd()); });
        calls.answer(calls.next()->id, Status(Code::BadInput, "no such method"));
    });
    auto answer = calls.ask("service", "method", "", kDeadline);
    CHECK(answer.status().code() == Code::BadInput);
    python.join();
}

TEST_CASE("a call that nobody takes ends in time and is not run later") {
    Calls calls;
    auto answer = calls.ask("service", "method", "", 20ms);
    CHECK(answer.status().code() == Code::DeadlineMissed);
    // Its caller has been told that it failed: running it now would surprise everybody, and a
    // stuck Python side would keep every message that was ever sent to it.
    CHECK_FALSE(calls.next().has_value());
}

TEST_CASE("closing fails what waits and what comes") {
    Calls calls;
    std::thread closer([&] {
        eventually([&] { return readable(calls.fd()); });
        calls.close();
    });
    CHECK(calls.ask("service", "method", "", kDeadline).status().code() == Code::Unavailable);
    closer.join();
    CHECK(calls.ask("service", "method", "", kDeadline).status().code() == Code::Unavailable);
}

TEST_CASE("rule 11: a message that does not match its checksum reaches nobody") {
    Node node;
    Fd fd = raw_connection(node.local);
    std::string meta = CallMessage{"service", "method"}.encode(), message = "a message";
    Header header{.op = Op::Call};
    header.body_bytes = message.size();
    header.body_crc = crc32c(0, message.data(), message.size());
    header.deadline_ms = 20'000;
    std::string bad = message;
    bad[3] ^= 1;
    send_all(fd.get(), frame(header, meta, bad));
    std::string reply;
    CHECK(eventually([&] {
        reply += receive_some(fd.get(), kHeaderBytes - reply.size());
        return reply.size() == kHeaderBytes || node.agent().calls().next().has_value();
    }));
    REQUIRE(reply.size() == kHeaderBytes);
    CHECK(decode_header(reply.data())->status == Code::Damaged);
    CHECK_FALSE(node.agent().calls().next().has_value());
}
