#define _GNU_SOURCE
#include "bench/sockets.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

typedef union {
    struct sockaddr any;
    struct sockaddr_un local;
    struct sockaddr_in tcp;
} Address;

void die(const char* what) {
    perror(what);
    exit(1);
}

static socklen_t parse(const char* text, Address* out) {
    memset(out, 0, sizeof *out);
    if (strncmp(text, "unix:", 5) == 0 && strlen(text + 5) < sizeof out->local.sun_path) {
        out->local.sun_family = AF_UNIX;
        strcpy(out->local.sun_path, text + 5);
        return sizeof out->local;
    }
    char host[INET_ADDRSTRLEN];
    unsigned short port;
    if (sscanf(text, "tcp:%15[0-9.]:%hu", host, &port) != 2 ||
        inet_pton(AF_INET, host, &out->tcp.sin_addr) != 1) {
        fprintf(stderr, "%s is not an address; write unix:/path or tcp:127.0.0.1:0\n", text);
        exit(2);
    }
    out->tcp.sin_family = AF_INET;
    out->tcp.sin_port = htons(port);
    return sizeof out->tcp;
}

int listen_on(const char* text) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    Address address;
    socklen_t size = parse(text, &address);
    int fd = socket(address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, &address.any, size) != 0 || listen(fd, 64) != 0) die(text);
    if (address.any.sa_family == AF_UNIX) {
        puts(text);
    } else {
        if (getsockname(fd, &address.any, &size) != 0) die("getsockname");
        char host[INET_ADDRSTRLEN];
        inet_ntop(AF_INET, &address.tcp.sin_addr, host, sizeof host);
        printf("tcp:%s:%d\n", host, ntohs(address.tcp.sin_port));
    }
    fflush(stdout);
    return fd;
}

int connect_to(const char* text) {
    Address address;
    socklen_t size = parse(text, &address);
    int fd = socket(address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, &address.any, size) != 0) die(text);
    int on = 1;
    if (address.any.sa_family == AF_INET) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
}

void send_all(int fd, const char* data, size_t size) {
    while (size > 0) {
        ssize_t sent = send(fd, data, size, MSG_NOSIGNAL);
        if (sent < 0) die("send");
        data += sent;
        size -= (size_t)sent;
    }
}

int receive_all(int fd, char* out, size_t size) {
    for (size_t at = 0; at < size;) {
        ssize_t got = recv(fd, out + at, size - at, 0);
        if (got == 0 && at == 0) return 0;
        if (got <= 0) die("recv");
        at += (size_t)got;
    }
    return 1;
}

void ask_for_bytes(char request[REQUEST_BYTES], size_t bytes) {
    memset(request, 0, REQUEST_BYTES);
    memcpy(request, &bytes, sizeof bytes);
}

size_t wanted_bytes(const char request[REQUEST_BYTES]) {
    size_t bytes;
    memcpy(&bytes, request, sizeof bytes);
    return bytes;
}

char* make_buffer(size_t size) {
    char* buffer =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (buffer == MAP_FAILED) die("mmap");
    return buffer;
}

long number(const char* text, long least) {
    char* end;
    long value = strtol(text, &end, 10);
    if (*end == '\0' && value >= least) return value;
    fprintf(stderr, "%s is not a number of at least %ld\n", text, least);
    exit(2);
}
