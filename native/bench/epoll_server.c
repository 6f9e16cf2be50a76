/* What an event loop can do: one thread, one epoll, non-blocking sockets; for every 64 bytes it
 * receives it sends BYTES from one buffer. No protocol, no checksum.
 *
 * usage: epoll_server ADDRESS BYTES */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench/sockets.h"

typedef struct {
    int fd;
    size_t received; /* of the request */
    size_t to_send;  /* of the reply */
    int waits_to_send;
} Connection;

static int loop;
static const char* reply;
static size_t reply_bytes;

static void add(int fd, void* connection) {
    struct epoll_event event = {EPOLLIN, {.ptr = connection}};
    if (epoll_ctl(loop, EPOLL_CTL_ADD, fd, &event) != 0) die("epoll_ctl");
}

static void wait_for(Connection* connection, int to_send) {
    if (connection->waits_to_send == to_send) return;
    connection->waits_to_send = to_send;
    struct epoll_event event = {to_send ? EPOLLOUT : EPOLLIN, {.ptr = connection}};
    if (epoll_ctl(loop, EPOLL_CTL_MOD, connection->fd, &event) != 0) die("epoll_ctl");
}

/* True if all of the reply has been sent. */
static int send_reply(Connection* connection) {
    while (connection->to_send > 0) {
        const char* rest = reply + (reply_bytes - connection->to_send);
        ssize_t sent = send(connection->fd, rest, connection->to_send, MSG_NOSIGNAL);
        if (sent < 0) return 0;
        connection->to_send -= (size_t)sent;
    }
    return 1;
}

static void on_ready(Connection* connection) {
    char request[REQUEST_BYTES];
    while (send_reply(connection)) {
        ssize_t got = recv(connection->fd, request, REQUEST_BYTES - connection->received, 0);
        if (got == 0 || (got < 0 && errno != EAGAIN)) {
            close(connection->fd);
            free(connection);
            return;
        }
        if (got < 0) return wait_for(connection, 0);
        connection->received += (size_t)got;
        if (connection->received < REQUEST_BYTES) continue;
        connection->received = 0;
        connection->to_send = reply_bytes;
    }
    wait_for(connection, 1);
}

static void accept_one(int listener) {
    int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK), on = 1;
    Connection* connection = calloc(1, sizeof *connection);
    if (fd < 0 || connection == NULL) die("accept");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    connection->fd = fd;
    add(fd, connection);
}

int main(int count, char** arguments) {
    if (count != 3) {
        fputs("usage: epoll_server ADDRESS BYTES\n", stderr);
        return 2;
    }
    reply_bytes = (size_t)number(arguments[2], 1);
    reply = make_buffer(reply_bytes);
    loop = epoll_create1(0);
    int listener = listen_on(arguments[1]);
    add(listener, NULL);
    for (;;) {
        struct epoll_event events[64];
        int ready = epoll_wait(loop, events, 64, -1);
        for (int i = 0; i < ready; ++i) {
            if (events[i].data.ptr == NULL)
                accept_one(listener);
            else
                on_ready(events[i].data.ptr);
        }
    }
}
