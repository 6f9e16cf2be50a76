// The Python face of the core. Failures are values inside; they become exceptions here and only
// here.
#include <nanobind/nanobind.h>

#include "python/bind.hpp"

NB_MODULE(_core, module) {
    module.doc() = "The C++ core of Holdfast: hashing, placement, store and transport.";
    bind_checksums(module);
    bind_placement(module);
    bind_client(module);
    bind_agent(module);
    bind_object_index(module);
}
