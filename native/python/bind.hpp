// Each file of native/python binds one part of the core.
#pragma once

#include <nanobind/nanobind.h>

#include "agent/agent.hpp"
#include "agent/agent_client.hpp"

// holdfast._core.Placement: the core keeps the placement, not the Python object, so that whoever is
// the last to let go of it needs no GIL.
struct SharedPlacement {
    holdfast::PlacementPtr placement;
};

void bind_agent(nanobind::module_& module);
void bind_requests(nanobind::module_& module, nanobind::class_<holdfast::Agent>& agent);
void bind_survey(nanobind::module_& module, nanobind::class_<holdfast::Agent>& agent);
void bind_notices(nanobind::class_<holdfast::Agent>& agent);
void bind_files(nanobind::module_& module, nanobind::class_<holdfast::Agent>& agent);
void bind_file_counters(nanobind::module_& module, nanobind::class_<holdfast::Agent>& agent);
void bind_checksums(nanobind::module_& module);
void bind_client(nanobind::module_& module);
void bind_boxes(nanobind::class_<holdfast::AgentClient>& client);
void bind_reading(nanobind::module_& module, nanobind::class_<holdfast::AgentClient>& client);
void bind_object_index(nanobind::module_& module);
void bind_placement(nanobind::module_& module);
