#include <Python.h>

#include "base/crc32c.hpp"
#include "python/bind.hpp"
#include "python/buffer.hpp"

namespace nb = nanobind;
using namespace nb::literals;

void bind_checksums(nb::module_& module) {
    module.def(
        "crc32c",
        [](nb::handle data, std::uint32_t value) {
            Buffer buffer(data, PyBUF_SIMPLE);
            nb::gil_scoped_release release;
            return holdfast::crc32c(value, buffer.data(), buffer.size());
        },
        "data"_a, "value"_a = 0,
        nb::sig("def crc32c(data: typing_extensions.Buffer, value: int = 0) -> int"),
        "CRC-32C of a contiguous buffer, after bytes whose checksum is `value`.");
}
