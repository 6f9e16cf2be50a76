#include "python/raise.hpp"

#include <nanobind/stl/string.h>

#include <array>
#include <string>

namespace nb = nanobind;
using holdfast::Code;

namespace {

constexpr std::array<const char*, holdfast::kLastCode + 1> kNames = {
    "Ok",   "HoldfastError", "BadInput", "KeyExists", "NotFound",  "Unavailable", "DeadlineMissed",
    "Busy", "Full",          "Refused",  "Damaged",   "StaleView", "Dropped",     "NotCached"};

}  // namespace

const char* name_of(Code code) {
    return kNames.at(static_cast<std::size_t>(code));
}

Code code_named(const std::string& name) {
    for (std::size_t i = 1; i < kNames.size(); ++i)
        if (name == kNames[i]) return static_cast<Code>(i);
    return Code::HoldfastError;
}

nb::str text_of(const std::string& message) {
    return nb::steal<nb::str>(PyUnicode_DecodeUTF8(
        message.data(), static_cast<Py_ssize_t>(message.size()), "backslashreplace"));
}

void raise(const holdfast::Status& status) {
    // A signal handler that raised while we waited comes before the failure it caused.
    if (PyErr_Occurred()) throw nb::python_error();
    nb::object type = nb::module_::import_("holdfast.errors").attr(name_of(status.code()));
    nb::object error = type(text_of(status.message()));
    error.attr("at") = status.at();
    PyErr_SetObject(type.ptr(), error.ptr());
    throw nb::python_error();
}
