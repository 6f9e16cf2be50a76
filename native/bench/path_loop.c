/* What a program does to files over and over, in one process, by system calls and nothing else.
 *
 * usage: path_loop stat|read|missing MILLISECONDS BYTES DIRECTORY
 *
 * Paths, relative to the directory, come on standard input, one on a line. "stat" asks for the
 * attributes of each, "missing" does so and expects none, "read" opens it, reads all of it, BYTES
 * at a time, and closes it. Prints as clients.h says; a request is a path. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench/clients.h"
#include "bench/sockets.h"

typedef struct {
    char** paths;
    long count;
    long next;
    size_t bytes;
    char* buffer;
} Client;

static const char* next_path(Client* client) {
    const char* path = client->paths[client->next++];
    if (client->next == client->count) client->next = 0;
    return path;
}

static void read_paths(Client* client) {
    char line[4096];
    while (fgets(line, sizeof line, stdin) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        client->paths = realloc(client->paths, sizeof(char*) * (size_t)(client->count + 1));
        if (client->paths == NULL || (client->paths[client->count++] = strdup(line)) == NULL)
            die("memory");
    }
    if (client->count == 0) die("no paths are given");
}

static void* begin(void* what) {
    Client* client = what;
    client->buffer = make_buffer(client->bytes);
    return client;
}

static void ask(void* what) {
    struct stat found;
    if (stat(next_path(what), &found) != 0) die("stat");
}

static void miss(void* what) {
    struct stat found;
    if (stat(next_path(what), &found) == 0 || errno != ENOENT) die("a missing file is there");
}

static void read_all(void* what) {
    Client* client = what;
    int fd = open(next_path(client), O_RDONLY | O_CLOEXEC);
    if (fd < 0) die("open");
    ssize_t count, all = 0;
    while ((count = read(fd, client->buffer, client->bytes)) > 0) all += count;
    if (count < 0 || all == 0) die("read");
    close(fd);
}

int main(int count, char** arguments) {
    static const struct {
        const char* name;
        void (*once)(void* client);
    } kinds[] = {{"stat", ask}, {"read", read_all}, {"missing", miss}};
    for (size_t i = 0; count == 5 && i < sizeof kinds / sizeof *kinds; ++i) {
        if (strcmp(kinds[i].name, arguments[1]) != 0) continue;
        Client client = {.bytes = (size_t)number(arguments[3], 1)};
        read_paths(&client);
        if (chdir(arguments[4]) != 0) die(arguments[4]);
        measure_clients((Task){begin, kinds[i].once}, &client, 1, number(arguments[2], 1));
        return 0;
    }
    fputs("usage: path_loop stat|read|missing MILLISECONDS BYTES DIRECTORY\n", stderr);
    return 2;
}
