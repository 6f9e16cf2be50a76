// The body of a reply, received straight into what Python gets. Call with the GIL held; it is
// released meanwhile.
#pragma once

#include <string>

#include "python/buffer.hpp"
#include "python/convert.hpp"
#include "python/raise.hpp"
#include "rpc/connection_pool.hpp"

// As a new bytes object; `status` tells how it went.
inline nanobind::bytes receive_bytes(holdfast::Exchange& exchange, holdfast::Status& status) {
    auto size = static_cast<Py_ssize_t>(exchange.reply().body_bytes);
    PyObject* raw = PyBytes_FromStringAndSize(nullptr, size);
    if (raw == nullptr) throw nanobind::python_error();
    auto bytes = nanobind::steal<nanobind::bytes>(raw);
    char* out = PyBytes_AS_STRING(raw);
    status = unlocked([&] { return exchange.read_body(out); });
    return bytes;
}

inline nanobind::bytes read_bytes(holdfast::Exchange& exchange) {
    holdfast::Status status;
    auto bytes = receive_bytes(exchange, status);
    raise_unless_ok(status);
    return bytes;
}

// Into a buffer, which must be large enough.
inline holdfast::Status receive_into(holdfast::Exchange& exchange, const Buffer& out) {
    if (exchange.reply().body_bytes > out.size())
        return {holdfast::Code::BadInput, "the buffer has " + std::to_string(out.size()) +
                                              " bytes, but the object has " +
                                              std::to_string(exchange.reply().body_bytes)};
    return unlocked([&] { return exchange.read_body(out.data()); });
}
