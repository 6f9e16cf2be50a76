/* The client of the baselines: sends 64 bytes, receives BYTES, into the same buffer every time.
 *
 * usage: raw_client ADDRESS BYTES CLIENTS MILLISECONDS */
#include <stdio.h>
#include <stdlib.h>

#include "bench/clients.h"
#include "bench/sockets.h"

typedef struct {
    const char* address;
    size_t bytes;
    int fd;
    char* buffer;
} Client;

static void* begin(void* what) {
    Client* client = what;
    client->fd = connect_to(client->address);
    client->buffer = make_buffer(client->bytes);
    return client;
}

static void once(void* what) {
    static const char request[REQUEST_BYTES];
    Client* client = what;
    send_all(client->fd, request, sizeof request);
    if (!receive_all(client->fd, client->buffer, client->bytes)) die("the server went away");
}

int main(int count, char** arguments) {
    if (count != 5) {
        fputs("usage: raw_client ADDRESS BYTES CLIENTS MILLISECONDS\n", stderr);
        return 2;
    }
    Client client = {.address = arguments[1], .bytes = (size_t)number(arguments[2], 1)};
    measure_clients((Task){begin, once}, &client, number(arguments[3], 1), number(arguments[4], 1));
    return 0;
}
