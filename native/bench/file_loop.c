/* Opens, asks about, reads and closes files, over and over, as a training job does; each of CLIENTS
 * begins at another of them. Their names come on the standard input, one in a line.
 *
 * usage: file_loop CLIENTS MILLISECONDS < names */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench/clients.h"
#include "bench/sockets.h"

#define MOST_NAMES 4096

typedef struct {
    char* names[MOST_NAMES];
    size_t count, next;
    char* buffer;
    size_t room;
} Reader;

static void* begin(void* what) {
    Reader* reader = what;
    reader->next = (size_t)getpid() * 31 % reader->count;
    return reader;
}

static void once(void* what) {
    Reader* reader = what;
    const char* name = reader->names[reader->next];
    reader->next = (reader->next + 1) % reader->count;
    struct stat info;
    int file = open(name, O_RDONLY);
    if (file < 0 || fstat(file, &info) != 0) die(name);
    size_t size = (size_t)info.st_size;
    if (size > reader->room) {
        reader->buffer = make_buffer(size);
        reader->room = size;
    }
    for (size_t at = 0; at < size;) {
        ssize_t got = read(file, reader->buffer + at, size - at);
        if (got <= 0) die(name);
        at += (size_t)got;
    }
    close(file);
}

int main(int count, char** arguments) {
    if (count != 3) {
        fputs("usage: file_loop CLIENTS MILLISECONDS < names\n", stderr);
        return 2;
    }
    static Reader reader;
    char line[4096];
    while (reader.count < MOST_NAMES && fgets(line, sizeof line, stdin) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        reader.names[reader.count++] = strdup(line);
    }
    if (reader.count == 0) {
        fputs("no names on the standard input\n", stderr);
        return 2;
    }
    measure_clients((Task){begin, once}, &reader, number(arguments[1], 1), number(arguments[2], 1));
    return 0;
}
