// Room for names and frames. Signal handlers run on stacks of a few KiB, of which the kernel takes
// a part, so what is large lies here. Nobody waits: whoever finds all taken gets a page for the
// moment, a handler other room than the call that it interrupted.
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/shim.h"

#define PIECES 32

struct piece {
    _Atomic bool taken;
    char room[HF_SCRATCH] __attribute__((aligned(16)));
};

static struct piece pieces[PIECES];

void* hf_borrow(void) {
    // Threads begin at different ones.
    size_t first = (size_t)__builtin_frame_address(0) / 16384;
    for (size_t i = 0; i < PIECES; ++i) {
        struct piece* one = &pieces[(first + i) % PIECES];
        bool expected = false;
        if (__atomic_compare_exchange_n((bool*)&one->taken, &expected, true, false,
                                        __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            return one->room;
    }
    int saved = errno;
    void* page = (void*)syscall(SYS_mmap, NULL, HF_SCRATCH, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    errno = saved;
    return page == MAP_FAILED ? NULL : page;
}

void hf_give_back(void* variable) {
    char* room = *(char**)variable;
    if (room == NULL) return;
    if (room >= (char*)pieces && room < (char*)(pieces + PIECES))
        pieces[(size_t)(room - (char*)pieces) / sizeof *pieces].taken = false;
    else
        syscall(SYS_munmap, room, HF_SCRATCH);
}
