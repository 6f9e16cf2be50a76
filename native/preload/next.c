// The functions that ours stand before.
#include <dlfcn.h>

#include "preload/shim.h"

extern struct hf_symbol __start_hf_symbols[] __attribute__((visibility("hidden")));
extern struct hf_symbol __stop_hf_symbols[] __attribute__((visibility("hidden")));

void* hf_next(struct hf_symbol* symbol) {
    void* address = __atomic_load_n(&symbol->address, __ATOMIC_RELAXED);
    if (address == NULL) {  // called before we were loaded to the end
        address = dlsym(RTLD_NEXT, symbol->name);
        __atomic_store_n(&symbol->address, address, __ATOMIC_RELAXED);
    }
    return address;
}

void hf_find_all(void) {
    for (struct hf_symbol* symbol = __start_hf_symbols; symbol != __stop_hf_symbols; ++symbol)
        hf_next(symbol);
}
