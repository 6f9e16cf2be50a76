// Talking to the agent: one request and its reply at a time on a connection.
//
// A few connections are kept. A thread that finds none free makes one for the moment, so nobody
// waits for another: not for a thread that a signal interrupted, nor, in a child, for one that was
// left behind. Children make their own. Whether a number still is our socket is looked at before
// each use: programs close what they do not know.
//
// Calls go to the kernel by number, past whoever else stands before the C library, and a thread
// that is cancelled leaves nothing behind.
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/backoff.h"
#include "preload/frame.h"
#include "preload/shim.h"

#define KEPT 8
// Programs expect low numbers for their own files.
static const int kHighNumbers[] = {500, 200, 60};

struct connection {
    _Atomic bool taken;
    int socket;  // -1: none
    uint64_t device, inode;
};

static struct connection kept[KEPT];
static _Atomic int owner;  // the process that they belong to
static struct hf_backoff backoff;

static uint64_t now_ms(void) {
    struct timespec now;
    hf_now(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

// ---- connections -----------------------------------------------------------------------------

static bool is_ours(const struct connection* one) {
    struct stat seen;
    return one->socket >= 0 && syscall(SYS_fstat, one->socket, &seen) == 0 &&
           S_ISSOCK(seen.st_mode) && seen.st_dev == one->device && seen.st_ino == one->inode;
}

static void drop(struct connection* one) {
    if (is_ours(one)) syscall(SYS_close, one->socket);
    one->socket = -1;
}

// In a child, or at the start: those that there are belong to another process.
void hf_forget_connections(void) {
    bool first = owner == 0;
    for (int i = 0; i < KEPT; ++i) {
        if (first)
            kept[i].socket = -1;
        else
            drop(&kept[i]);
        kept[i].taken = false;
    }
    owner = (int)syscall(SYS_getpid);
}

int hf_raise(int low) {
    int high = -1;
    for (size_t i = 0; i < sizeof kHighNumbers / sizeof *kHighNumbers && high < 0; ++i)
        high = (int)syscall(SYS_fcntl, low, F_DUPFD_CLOEXEC, kHighNumbers[i]);
    return high;
}

static bool same_user(int socket) {
    struct ucred peer;
    socklen_t bytes = sizeof peer;
    return syscall(SYS_getsockopt, socket, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 &&
           peer.uid == hf_settings.user;
}

static bool connect_to_agent(struct connection* one) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strcpy(address.sun_path, hf_settings.socket);
    int type = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;
    int low = (int)syscall(SYS_socket, AF_UNIX, type, 0);
    if (low < 0) return false;
    struct stat seen;
    int high = -1;
    if (syscall(SYS_connect, low, &address, sizeof address) == 0 && same_user(low))
        high = hf_raise(low);
    syscall(SYS_close, low);
    if (high < 0) return false;
    syscall(SYS_fstat, high, &seen);
    one->socket = high;
    one->device = seen.st_dev;
    one->inode = seen.st_ino;
    return true;
}

// ---- bytes -----------------------------------------------------------------------------------

static bool wait_for(int socket, short event, uint64_t end) {
    for (;;) {
        uint64_t now = now_ms();
        if (now >= end) return false;
        uint64_t left = end - now;
        struct timespec wait = {(time_t)(left / 1000), (long)(left % 1000) * 1000000};
        struct pollfd one = {socket, event, 0};
        long ready = syscall(SYS_ppoll, &one, 1, &wait, NULL, 0);
        if (ready > 0) return true;
        if (ready < 0 && errno != EINTR) return false;
    }
}

static bool again(void) {
    return errno == EAGAIN || errno == EINTR;
}

static bool send_all(int socket, const char* data, size_t bytes, uint64_t end) {
    while (bytes > 0) {
        long sent = syscall(SYS_sendto, socket, data, bytes, MSG_NOSIGNAL, NULL, 0);
        if (sent < 0 && !again()) return false;
        if (sent < 0 && !wait_for(socket, POLLOUT, end)) return false;
        if (sent > 0) data += sent, bytes -= (size_t)sent;
    }
    return true;
}

struct passed {
    int file;   // -1: none
    int flags;  // MSG_CMSG_CLOEXEC, or 0
};

// A piece of the reply, and the descriptor that comes with its first byte.
static long receive(int socket, char* out, size_t room, struct passed* passed) {
    char control[CMSG_SPACE(sizeof(int))] __attribute__((aligned(8)));
    struct iovec part = {out, room};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof control};
    long got = syscall(SYS_recvmsg, socket, &message, passed->flags | MSG_DONTWAIT);
    if (got <= 0) return got;
    struct cmsghdr* header = CMSG_FIRSTHDR(&message);
    if (header != NULL && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS &&
        header->cmsg_len == CMSG_LEN(sizeof(int))) {
        if (passed->file >= 0) syscall(SYS_close, passed->file);
        memcpy(&passed->file, CMSG_DATA(header), sizeof passed->file);
    }
    return got;
}

// ---- a request and its reply -----------------------------------------------------------------

enum outcome { BROKEN, LATE, SAID_NO, SAID_YES };

// Both do not lie on the stack.
struct talk {
    struct hf_frame request;
    struct hf_reply reply;
};

static enum outcome exchange(int socket, struct talk* talk, struct passed* passed, size_t* got,
                             uint64_t end) {
    const struct hf_frame* request = &talk->request;
    struct hf_reply* reply = &talk->reply;
    if (!send_all(socket, request->bytes, request->size, end)) return BROKEN;
    *got = 0;
    for (;;) {
        // Most often it is not there yet, and waiting first spares a call.
        for (int left = HF_FILE_DEADLINES; !wait_for(socket, POLLIN, end);
             end += hf_settings.deadline_ms)
            if (--left == 0 || !hf_agent_beats()) return LATE;
        size_t at = *got < sizeof reply->bytes ? *got : HF_HEADER;
        long more = receive(socket, reply->bytes + at, sizeof reply->bytes - at, passed);
        if (more < 0 && again()) continue;
        if (more <= 0) return BROKEN;
        *got += (size_t)more;
        switch (hf_look_at(reply, *got, request)) {
            case HF_INCOMPLETE:
                continue;
            case HF_MALFORMED:
                return BROKEN;
            case HF_FAILURE:
                return SAID_NO;
            case HF_SUCCESS:
                return SAID_YES;
        }
    }
}

// Asks on a connection that is kept, on a new one if that has ended meanwhile.
static enum outcome ask_on(struct connection* one, struct talk* talk, struct passed* passed) {
    uint64_t end = now_ms() + hf_settings.deadline_ms;
    for (;;) {
        bool fresh = !is_ours(one);
        if (fresh && !connect_to_agent(one)) {
            one->socket = -1;
            return BROKEN;
        }
        size_t got = 0;
        enum outcome outcome = exchange(one->socket, talk, passed, &got, end);
        if (outcome == SAID_YES || outcome == SAID_NO) return outcome;
        drop(one);
        if (outcome == LATE || fresh || got > 0) return outcome;
    }
}

static enum outcome ask(struct talk* talk, struct passed* passed) {
    // A child that shares our memory must leave alone what is kept, and so must one that was made
    // past the C library.
    if (owner == (int)syscall(SYS_getpid)) {
        for (int i = 0; i < KEPT; ++i) {
            bool expected = false;
            if (!__atomic_compare_exchange_n((bool*)&kept[i].taken, &expected, true, false,
                                             __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
                continue;
            enum outcome outcome = ask_on(&kept[i], talk, passed);
            kept[i].taken = false;
            return outcome;
        }
    }
    struct connection own = {.socket = -1};
    enum outcome outcome = ask_on(&own, talk, passed);
    drop(&own);
    return outcome;
}

static enum outcome ask_and_learn(struct talk* talk, struct passed* passed) {
    enum outcome outcome = ask(talk, passed);
    if (outcome == SAID_YES || outcome == SAID_NO)
        hf_answered(&backoff);
    else
        hf_failed(&backoff, now_ms());
    return outcome;
}

void hf_invalidate(const struct hf_place* place) {
    // Also an agent from which we back off: whoever is not told goes on to serve what was.
    HF_BORROW(struct talk, talk);
    if (talk != NULL && !hf_agent_is_silent()) {
        hf_write_invalidate(&talk->request, place);
        struct passed passed = {-1, MSG_CMSG_CLOEXEC};
        enum outcome outcome = ask_and_learn(talk, &passed);
        if (passed.file >= 0) syscall(SYS_close, passed.file);
        if (outcome == SAID_YES) return;
    }
    hf_wait_until_stale();
}

static int ask_for(const struct hf_place* place, bool close_on_exec) {
    HF_BORROW(struct talk, talk);
    if (talk == NULL) return -1;
    hf_write_open(&talk->request, place);
    struct passed passed = {-1, close_on_exec ? MSG_CMSG_CLOEXEC : 0};
    // It has looked at the root before it answers.
    if (ask_and_learn(talk, &passed) == SAID_YES && hf_is_here(place->root) == HF_HERE)
        return passed.file;
    if (passed.file >= 0) syscall(SYS_close, passed.file);
    return -1;
}

// What it told of a root may be of the time before the root was replaced: it is asked once.
static bool is_elsewhere(const struct hf_root* known) {
    if (hf_is_here(known) != HF_ELSEWHERE) return false;
    struct hf_root* root = &hf_settings.roots[known - hf_settings.roots];
    if (root->asked) return true;
    root->asked = true;
    HF_BORROW(struct hf_place, itself);
    if (itself == NULL) return true;
    itself->root = root;
    itself->bytes = strlen(root->path);
    strcpy(itself->path, root->path);
    int file = ask_for(itself, true);  // which it is not, being a directory
    if (file >= 0) syscall(SYS_close, file);
    return hf_is_here(known) != HF_HERE;
}

int hf_ask_for(const struct hf_place* place, bool close_on_exec) {
    if (hf_has_failed(&backoff) && hf_backs_off(&backoff, now_ms())) return -1;
    if (!hf_knows_copies() || hf_agent_is_silent() || is_elsewhere(place->root)) return -1;
    return ask_for(place, close_on_exec);
}
