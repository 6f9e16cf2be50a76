/* Sockets of the baselines: blocking, no protocol, any failure ends the program.
 *
 * Addresses are written as Holdfast writes them: "unix:/path" or "tcp:127.0.0.1:PORT". */
#pragma once

#include <stddef.h>

#define REQUEST_BYTES 64 /* a client sends this many, which say how many it is to receive */

#ifdef __cplusplus
extern "C" {
#endif

/* Prints why, and ends the program. */
void die(const char* what);

/* Listens there, prints the address as bound on a line of its own, and ends this process when
 * the one that started it ends. */
int listen_on(const char* address);
int connect_to(const char* address);

void send_all(int fd, const char* data, size_t size);
/* False if the other side closed the connection before the first byte. */
int receive_all(int fd, char* out, size_t size);

/* A request for some bytes, and how many one asks for. */
void ask_for_bytes(char request[REQUEST_BYTES], size_t bytes);
size_t wanted_bytes(const char request[REQUEST_BYTES]);

/* Pages of its own, every one touched, so that no fault falls into what is measured. */
char* make_buffer(size_t size);

/* A number of at least `least`, or the program ends. */
long number(const char* text, long least);

#ifdef __cplusplus
}
#endif
