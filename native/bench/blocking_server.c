/* What the machine can do: a process for each connection that blocks on it, reads 64 bytes and
 * sends as many bytes of one buffer as they ask for, at most BYTES. No checksum, no event loop.
 *
 * usage: blocking_server ADDRESS BYTES */
#define _GNU_SOURCE
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench/sockets.h"

static void serve(int fd, const char* data, size_t size) {
    char request[REQUEST_BYTES];
    while (receive_all(fd, request, sizeof request)) {
        size_t wanted = wanted_bytes(request);
        send_all(fd, data, wanted < size ? wanted : size);
    }
}

int main(int count, char** arguments) {
    if (count != 3) {
        fputs("usage: blocking_server ADDRESS BYTES\n", stderr);
        return 2;
    }
    size_t size = (size_t)number(arguments[2], 1);
    char* data = make_buffer(size);
    signal(SIGCHLD, SIG_IGN); /* no zombies */
    int listener = listen_on(arguments[1]);
    for (;;) {
        int fd = accept(listener, NULL, NULL);
        if (fd < 0) die("accept");
        int on = 1;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); /* has no effect on Unix ones */
        pid_t child = fork();
        if (child < 0) die("fork");
        if (child == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            serve(fd, data, size);
            _exit(0);
        }
        close(fd);
    }
}
