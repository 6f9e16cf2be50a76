#include <Python.h>

#include <cstdint>

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
    module.def(
        "crc32c_at",
        [](nb::handle addresses, nb::handle sizes, nb::handle values) {
            Buffer where(addresses, PyBUF_SIMPLE), length(sizes, PyBUF_SIMPLE);
            Buffer result(values, PyBUF_WRITABLE);
            std::size_t count = result.size() / sizeof(std::uint32_t);
            if (where.size() != count * sizeof(std::uint64_t) || length.size() != where.size())
                throw nb::value_error("addresses and sizes take 8 bytes each, values 4");
            auto* address = reinterpret_cast<const std::uint64_t*>(where.data());
            auto* size = reinterpret_cast<const std::uint64_t*>(length.data());
            auto* value = reinterpret_cast<std::uint32_t*>(result.data());
            nb::gil_scoped_release release;
            for (std::size_t i = 0; i < count; ++i)
                value[i] = holdfast::crc32c(0, reinterpret_cast<const void*>(address[i]), size[i]);
        },
        "addresses"_a, "sizes"_a, "values"_a,
        nb::sig("def crc32c_at(addresses: typing_extensions.Buffer, sizes: "
                "typing_extensions.Buffer, values: typing_extensions.Buffer) -> None"),
        "Put the CRC-32C of each piece of this process's memory into `values` (32-bit words).\n\n"
        "`addresses` and `sizes` are arrays of 64-bit words; the memory must be there.");
}
