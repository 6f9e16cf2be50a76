/* The client of the baselines: asks for bytes and receives them, into the same buffer every time.
 * Each of CLIENTS asks all servers in turn. With MOST, for sizes from BYTES to MOST, in an order
 * that looks like none.
 *
 * usage: raw_client ADDRESS[,ADDRESS...] BYTES[-MOST] CLIENTS MILLISECONDS */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/clients.h"
#include "bench/sockets.h"

#define MOST_SERVERS 16
#define SIZES 64 /* and SIZES - 1 steps between them */

typedef struct {
    char* addresses;
    size_t least, most;
    int servers, fds[MOST_SERVERS];
    unsigned count;
    char* buffer;
} Client;

static void* begin(void* what) {
    Client* client = what;
    for (char* address = strtok(client->addresses, ","); address; address = strtok(NULL, ",")) {
        if (client->servers == MOST_SERVERS) die("too many servers");
        client->fds[client->servers++] = connect_to(address);
    }
    client->buffer = make_buffer(client->most);
    return client;
}

static void once(void* what) {
    Client* client = what;
    unsigned number = client->count++;
    /* Odd, so that each size has its turn. */
    size_t step = number * 37u % SIZES;
    size_t size = client->least + (client->most - client->least) * step / (SIZES - 1);
    int fd = client->fds[number % (unsigned)client->servers];
    char request[REQUEST_BYTES];
    ask_for_bytes(request, size);
    send_all(fd, request, sizeof request);
    if (!receive_all(fd, client->buffer, size)) die("the server went away");
}

int main(int count, char** arguments) {
    if (count != 5) {
        fputs("usage: raw_client ADDRESS[,ADDRESS...] BYTES[-MOST] CLIENTS MILLISECONDS\n", stderr);
        return 2;
    }
    char* most = strchr(arguments[2], '-');
    if (most != NULL) *most++ = '\0';
    size_t least = (size_t)number(arguments[2], 1);
    Client client = {.addresses = arguments[1], .least = least, .most = least};
    if (most != NULL) client.most = (size_t)number(most, (long)least);
    measure_clients((Task){begin, once}, &client, number(arguments[3], 1), number(arguments[4], 1));
    return 0;
}
