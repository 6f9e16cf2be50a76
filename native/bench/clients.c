#define _GNU_SOURCE
#include "bench/clients.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench/sockets.h"

#define MOST_SAMPLES (1 << 17)
#define WARM_UP 0.05 /* seconds: connections, caches, the window of TCP */

typedef struct {
    long requests;
    double seconds;
    double samples[MOST_SAMPLES];
} Record;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void run(Task task, void* client, double seconds, Record* record) {
    double start = now(), before = start;
    long count = 0;
    while (before - start < seconds && count < MOST_SAMPLES) {
        task.once(client);
        double after = now();
        record->samples[count++] = after - before;
        before = after;
    }
    record->requests = count;
    record->seconds = before - start;
}

static int ascending(const void* a, const void* b) {
    double x = *(const double*)a, y = *(const double*)b;
    return (x > y) - (x < y);
}

/* Of all requests of all clients. */
static double median_of(const Record* records, long clients) {
    long all = 0;
    for (long i = 0; i < clients; ++i) all += records[i].requests;
    double* samples = malloc(sizeof(double) * (size_t)all);
    if (samples == NULL) die("malloc");
    long at = 0;
    for (long i = 0; i < clients; at += records[i++].requests)
        memcpy(samples + at, records[i].samples, sizeof(double) * (size_t)records[i].requests);
    qsort(samples, (size_t)all, sizeof(double), ascending);
    double median = samples[all / 2];
    free(samples);
    return median;
}

void measure_clients(Task task, void* what, long clients, long milliseconds) {
    Record* records = mmap(NULL, sizeof(Record) * (size_t)clients, PROT_READ | PROT_WRITE,
                           MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    int ready[2], go[2];
    if (records == MAP_FAILED || pipe(ready) != 0 || pipe(go) != 0) die("set-up");
    pid_t parent = getpid();
    for (long i = 0; i < clients; ++i) {
        pid_t child = fork();
        if (child < 0) die("fork");
        if (child > 0) continue;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) _exit(1);
        close(go[1]);
        void* client = task.begin(what);
        run(task, client, WARM_UP, &records[i]);
        char byte = 0;
        if (write(ready[1], &byte, 1) != 1) die("write");
        if (read(go[0], &byte, 1) != 0) die("read"); /* the end of the pipe is the signal */
        run(task, client, 1e-3 * (double)milliseconds, &records[i]);
        _exit(0);
    }
    close(ready[1]);
    char byte;
    for (long i = 0; i < clients; ++i)
        if (read(ready[0], &byte, 1) != 1) exit(1); /* a client died and has said why */
    close(go[1]);
    for (long i = 0; i < clients; ++i) {
        int status;
        if (wait(&status) < 0 || status != 0) exit(1);
    }
    double all = 0;
    for (long i = 0; i < clients; ++i) all += (double)records[i].requests / records[i].seconds;
    printf("{\"per_second\": %.9g, \"seconds\": %.9g, \"each\": [", all,
           median_of(records, clients));
    for (long i = 0; i < clients; ++i)
        printf("%s%.9g", i > 0 ? ", " : "", (double)records[i].requests / records[i].seconds);
    puts("]}");
}
