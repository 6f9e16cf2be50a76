// Where failures become exceptions. Call with the GIL held.
#pragma once

#include <nanobind/nanobind.h>

#include "base/status.hpp"

// Raises the exception of holdfast.errors that has the code's name, with `at` as an attribute.
[[noreturn]] void raise(const holdfast::Status& status);

inline void raise_unless_ok(const holdfast::Status& status) {
    if (!status.ok()) raise(status);
}

template <typename T>
T& value_or_raise(holdfast::Result<T>& result) {
    if (!result.ok()) raise(result.status());
    return *result;
}

// A message as Python text: it names keys, and keys are bytes of any kind.
nanobind::str text_of(const std::string& message);

const char* name_of(holdfast::Code code);
holdfast::Code code_named(const std::string& name);
