// Gets of one object through the core's client, into the same buffer every time.
//
// usage: get_loop ADDRESS KEY BYTES CLIENTS MILLISECONDS < the job key
#include <unistd.h>

#include <cstdio>
#include <string>

#include "agent/agent_client.hpp"
#include "bench/clients.h"
#include "bench/sockets.h"

namespace {

using namespace holdfast;

struct Getter {
    std::string address, key;
    std::size_t bytes = 0;
    AgentClient remote;
    char* buffer = nullptr;

    void once() {
        auto exchange = remote.get(address, {key}, false, std::chrono::seconds(5));
        if (!exchange.ok()) fail(exchange.status());
        if (exchange->reply().body_bytes != bytes) die("the object has another size");
        if (Status status = exchange->read_body(buffer); !status.ok()) fail(status);
    }

    [[noreturn]] static void fail(const Status& status) {
        std::fprintf(stderr, "get: %s\n", status.message().c_str());
        std::_Exit(1);
    }
};

}  // namespace

int main(int count, char** arguments) {
    if (count != 6) {
        std::fputs("usage: get_loop ADDRESS KEY BYTES CLIENTS MILLISECONDS < the job key\n",
                   stderr);
        return 2;
    }
    char job_key[256];
    auto size = ::read(STDIN_FILENO, job_key, sizeof job_key);
    if (size < 0) die("the job key");
    Getter getter{arguments[1], arguments[2], static_cast<std::size_t>(number(arguments[3], 1)),
                  AgentClient(std::string(job_key, static_cast<std::size_t>(size)))};
    auto begin = [](void* what) {
        auto* self = static_cast<Getter*>(what);
        self->buffer = make_buffer(self->bytes);
        return what;
    };
    auto once = [](void* what) { static_cast<Getter*>(what)->once(); };
    measure_clients({begin, once}, &getter, number(arguments[4], 1), number(arguments[5], 1));
}
