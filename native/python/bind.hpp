// Each file of native/python binds one part of the core.
#pragma once

#include <nanobind/nanobind.h>

void bind_agent(nanobind::module_& module);
void bind_checksums(nanobind::module_& module);
void bind_client(nanobind::module_& module);
void bind_placement(nanobind::module_& module);
