/* Several processes that ask the same thing over and over, and how fast they are answered. */
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

/* What one client does. It runs in a process of its own; `what` is handed to begin(). */
typedef struct {
    void* (*begin)(void* what); /* connects; its result is handed to once() */
    void (*once)(void* client); /* one request and its whole reply */
} Task;

/* Runs `clients` of them at once for `milliseconds`, after a warm-up, and prints
 *     {"per_second": requests of all clients, "seconds": median time of one request,
 *      "each": [requests per second of each client]}
 */
void measure_clients(Task task, void* what, long clients, long milliseconds);

#ifdef __cplusplus
}
#endif
