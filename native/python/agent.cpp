// holdfast._core.Agent: the native half of a node agent.
#include "agent/agent.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <optional>

#include "base/fault.hpp"
#include "base/log.hpp"
#include "python/bind.hpp"
#include "python/convert.hpp"
#include "python/raise.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace holdfast;

namespace {

nb::dict tier_status(Store& store, Tier tier) {
    Usage usage = store.usage(tier);
    nb::dict status;
    status["objects"] = usage.objects;
    status["bytes"] = usage.bytes;
    status["occupied"] = usage.occupied;
    status["reserved"] = usage.reserved;
    status["capacity"] = usage.capacity;
    status["condemned"] = static_cast<std::uint64_t>(usage.condemned);
    return status;
}

nb::dict counters(Agent& agent) {
    auto& operations = agent.operations().counters();
    auto& store = agent.store().counters();
    auto& traffic = agent.server().traffic();
    nb::dict all;
    all["puts"] = operations.puts.load();
    all["put_bytes"] = operations.put_bytes.load();
    all["gets"] = operations.gets.load();
    all["get_bytes"] = operations.get_bytes.load();
    all["missing"] = operations.missing.load();
    all["pulls"] = operations.pulls.load();
    all["pulled_bytes"] = operations.pulled_bytes.load();
    all["probes"] = agent.probes().probes();
    all["evicted"] = store.evicted.load();
    all["dropped"] = store.dropped.load();
    all["trimmed"] = store.trimmed.load();
    all["notices"] = agent.store().notice_digest().first;
    all["notice_bytes"] = agent.store().notice_bytes();
    all["damaged"] = store.damaged.load();
    all["refused_full"] = store.refused_full.load();
    all["sealed"] = store.sealed.load();
    all["seal_copied"] = store.seal_copied.load();
    all["connections"] = traffic.connections.load();
    all["requests"] = traffic.requests.load();
    all["refused_connections"] = traffic.refused.load();
    return all;
}

}  // namespace

void bind_agent(nb::module_& module) {
    module.def(
        "status_codes",
        [] {
            nb::dict codes;
            for (std::uint16_t code = 0; code <= kLastCode; ++code)
                codes[name_of(static_cast<Code>(code))] = code;
            return codes;
        },
        nb::sig("def status_codes() -> dict[str, int]"),
        "Numbers of the failures on the wire, by the name of their exception.");

    module.def(
        "log_warning",
        [](nb::handle text) {
            // Also of what no encoding has: a log must never be what fails.
            auto bytes = nb::steal<nb::bytes>(
                PyUnicode_AsEncodedString(text.ptr(), "utf-8", "backslashreplace"));
            if (!bytes.is_valid()) throw nb::python_error();
            log_warning({bytes.c_str(), bytes.size()});
        },
        "text"_a, nb::sig("def log_warning(text: str) -> None"),
        "Write a line to the log, which takes a limited number in a second.");

    nb::class_<Calls::Call>(module, "Call", "A call to a service of this agent.")
        .def_ro("id", &Calls::Call::id)
        // A name that is no text names nothing: whoever sent it is told so.
        .def_prop_ro("service", [](const Calls::Call& self) { return text_of(self.service); })
        .def_prop_ro("method", [](const Calls::Call& self) { return text_of(self.method); })
        .def_prop_ro("message", [](const Calls::Call& self) { return as_bytes(self.message); })
        .def_prop_ro(
            "within",
            [](const Calls::Call& self) -> std::optional<double> {
                if (!self.within) return std::nullopt;
                return std::chrono::duration<double>(*self.within).count();
            },
            "How many seconds it may wait, if it may be parked.");
    nb::class_<Agent> agent(module, "Agent", "Store and server of one node.");
    agent
        .def(nb::new_([](const nb::bytes& job_key, const std::string& memory_dir,
                         std::uint64_t memory_capacity, const std::string& disk_dir,
                         std::uint64_t disk_capacity, std::uint64_t scrub_rate, bool huge_pages) {
                 AgentOptions options{
                     as_string(job_key),
                     {{{memory_dir, memory_capacity, huge_pages}, {disk_dir, disk_capacity}}},
                     scrub_rate};
                 auto agent = Agent::make(std::move(options));
                 return std::move(value_or_raise(agent));
             }),
             "job_key"_a, nb::kw_only(), "memory_dir"_a, "memory_capacity"_a, "disk_dir"_a,
             "disk_capacity"_a, "scrub_rate"_a = 0, "huge_pages"_a = false)
        .def(
            "listen",
            [](Agent& self, const std::string& address) {
                auto bound = self.server().listen(address);
                return value_or_raise(bound);
            },
            "address"_a, "Listen there, before start(); gives the address as bound.")
        .def("start", [](Agent& self) { self.server().start(); })
        .def(
            "fileno", [](Agent& self) { return self.fd(); },
            "Readable when there are calls or events.")
        .def(
            "next_call", [](Agent& self) { return self.calls().next(); },
            nb::sig("def next_call(self) -> Call | None"),
            "The next call to this agent's services, if one waits.")
        .def(
            "take_cancelled", [](Agent& self) { return self.calls().take_cancelled(); },
            nb::sig("def take_cancelled(self) -> list[int]"),
            "Parked calls that were taken and whose callers have gone since.")
        .def(
            "answer",
            [](Agent& self, std::uint64_t id, const nb::bytes& message) {
                self.calls().answer(id, as_string(message));
            },
            "call"_a, "message"_a)
        .def(
            "fail",
            [](Agent& self, std::uint64_t id, const std::string& code, const std::string& message) {
                self.calls().answer(id, Status(code_named(code), message));
            },
            "call"_a, "code"_a, "message"_a, "Answer a call with an error, by its name.")
        .def(
            "counters", [](Agent& self) { return counters(self); },
            nb::sig("def counters(self) -> dict[str, int]"))
        .def(
            "tiers",
            [](Agent& self) {
                nb::dict tiers;
                tiers["memory"] = tier_status(self.store(), Tier::Memory);
                tiers["disk"] = tier_status(self.store(), Tier::Disk);
                return tiers;
            },
            nb::sig("def tiers(self) -> dict[str, dict[str, int]]"))
        .def(
            "arm",
            [](Agent&, const std::string& stage, const std::string& action, std::uint64_t after) {
                raise_unless_ok(fault::arm(stage, action, after));
            },
            "stage"_a, "action"_a, "after"_a = 1,
            "Kill or stop this process at a later pass of a stage; `nothing` disarms it.")
        .def(
            "pass_point",
            [](Agent&, const std::string& stage) {
                auto found = fault::stage_named(stage);
                fault_point(value_or_raise(found));
            },
            "stage"_a, "Pass a stage that lies on the Python side.")
        .def(
            "stop", [](Agent& self) { self.stop(); }, nb::call_guard<nb::gil_scoped_release>(),
            "End all requests and wait for the threads.");
    bind_requests(module, agent);
    bind_survey(module, agent);
    bind_notices(agent);
    bind_files(module, agent);
    bind_file_counters(module, agent);
}
