// The part of holdfast._core.Agent that speaks with other agents: nothing here waits for them
// but `wait`, which is not for the loop.
#include "agent/requests.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <array>

#include "python/bind.hpp"
#include "python/convert.hpp"
#include "python/raise.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace holdfast;

namespace {

double seconds(auto duration) {
    return std::chrono::duration<double>(duration).count();
}

const char* code_of(const Status& status) {
    return status.ok() ? "" : name_of(status.code());
}

void bind_events(nb::module_& module) {
    nb::class_<event::Answered>(module, "AnsweredEvent", "A probe was answered.")
        .def_ro("ticket", &event::Answered::ticket)
        .def_prop_ro("age", [](const event::Answered& self) { return self.age_ms / 1000.0; })
        .def_ro("identity", &event::Answered::identity)
        .def_prop_ro("news", [](const event::Answered& self) { return as_bytes(self.news); });
    nb::class_<event::Heard>(module, "HeardEvent", "Somebody's probe tells us something.")
        .def_ro("identity", &event::Heard::identity)
        .def_ro("sender", &event::Heard::sender)
        .def_prop_ro("news", [](const event::Heard& self) { return as_bytes(self.news); });
    nb::class_<event::Reply>(module, "ReplyEvent", "A call was answered.")
        .def_ro("ticket", &event::Reply::ticket)
        .def_prop_ro("message", [](const event::Reply& self) { return as_bytes(self.message); });
    nb::class_<event::Pulled>(module, "PulledEvent", "An object was copied to this node.")
        .def_ro("ticket", &event::Pulled::ticket)
        .def_ro("size", &event::Pulled::size);
    nb::class_<event::Failed>(module, "FailedEvent", "A request failed.")
        .def(
            "__init__",
            [](event::Failed* self, std::uint64_t ticket, const std::string& code,
               const std::string& message) {
                new (self) event::Failed{ticket, Status(code_named(code), message)};
            },
            "ticket"_a, "code"_a, "message"_a)
        .def_ro("ticket", &event::Failed::ticket)
        .def_prop_ro("code", [](const event::Failed& self) { return code_of(self.status); })
        .def_prop_ro("message",
                     [](const event::Failed& self) { return text_of(self.status.message()); });
    nb::class_<event::Doubted>(module, "DoubtedEvent",
                               "A member failed a program of this node that wanted a file.")
        .def_ro("member", &event::Doubted::member)
        .def_prop_ro("path", [](const event::Doubted& self) { return text_of(self.path); })
        .def_prop_ro("code", [](const event::Doubted& self) { return code_of(self.status); })
        .def_prop_ro("message",
                     [](const event::Doubted& self) { return text_of(self.status.message()); });

    using event::Incident;
    nb::class_<Incident>(module, "IncidentEvent", "Something for the story of this agent.")
        .def_prop_ro(
            "kind",
            [](const Incident& self) {
                constexpr std::array<const char*, Incident::kKinds> kinds{"waited", "refused",
                                                                          "damaged", "condemned"};
                return kinds.at(self.kind);
            },
            nb::sig(
                "def kind(self) -> typing.Literal['waited', 'refused', 'damaged', 'condemned']"))
        .def_prop_ro(
            "what", [](const Incident& self) { return text_of(self.what); },
            "What was asked for, or the tier.")
        .def_prop_ro(
            "about", [](const Incident& self) { return text_of(self.about); }, "A key or a path.")
        .def_ro("address", &Incident::with, "Of the other agent, if there was one.")
        .def_prop_ro("seconds", [](const Incident& self) { return seconds(self.waited); })
        .def_prop_ro("deadline", [](const Incident& self) { return seconds(self.deadline); })
        .def_prop_ro(
            "code", [](const Incident& self) { return code_of(self.status); },
            "The name of the error; nothing if there was none.")
        .def_prop_ro("message", [](const Incident& self) { return text_of(self.status.message()); })
        .def_prop_ro(
            "ended", [](const Incident& self) { return seconds(self.ended.time_since_epoch()); },
            "When, by the boot clock.")
        .def_ro("left_out", &Incident::left_out, "How many of its kind, before this one.");
}

std::string checked_news(const nb::bytes& news) {
    if (news.size() > kMaxNews)
        raise(Status(Code::BadInput, "news of " + std::to_string(news.size()) +
                                         " bytes; the limit is " + std::to_string(kMaxNews)));
    return as_string(news);
}

}  // namespace

void bind_requests(nb::module_& module, nb::class_<Agent>& agent) {
    bind_events(module);
    agent
        .def(
            "set_self", [](Agent& self, std::uint64_t number) { self.set_self(number); },
            "number"_a, "The number of the member that this agent is.")
        .def(
            "set_placement",
            [](Agent& self, const SharedPlacement& shared) {
                unlocked([&] { self.set_placement(shared.placement); });
            },
            "placement"_a, "Where objects belong from now on.")
        .def(
            "set_suspects",
            [](Agent& self, std::vector<std::uint64_t> numbers) {
                self.set_suspects(std::move(numbers));
            },
            "numbers"_a, "The members that are suspected from now on, and no others.")
        .def(
            "beat", [](Agent& self) { self.probes().beat(); },
            "The Python loop is alive; answers to probes tell how long ago that was.")
        .def(
            "set_news",
            [](Agent& self, const nb::bytes& news) { self.probes().set_news(checked_news(news)); },
            "news"_a, "What answers to probes carry back.")
        .def(
            "probe",
            [](Agent& self, std::uint64_t ticket, const std::string& address,
               const std::string& via, const nb::bytes& news, double deadline,
               std::uint64_t member) {
                self.requests().probe(ticket, address, via, checked_news(news), member,
                                      as_duration(deadline));
            },
            "ticket"_a, "address"_a, nb::kw_only(), "via"_a, "news"_a, "deadline"_a, "member"_a = 0,
            "Probe the agent at `address`, or let the one at `via` probe it.\n\n"
            "With `member` only that one may answer. Ends as an AnsweredEvent or a FailedEvent.")
        .def(
            "ask",
            [](Agent& self, std::uint64_t ticket, std::string address, std::string service,
               std::string method, const nb::bytes& message, double deadline) {
                self.requests().ask(ticket, std::move(address),
                                    {std::move(service), std::move(method)}, as_string(message),
                                    as_duration(deadline));
            },
            "ticket"_a, "address"_a, nb::kw_only(), "service"_a, "method"_a, "message"_a,
            "deadline"_a, "Call a service of another agent. Ends as a ReplyEvent or a FailedEvent.")
        .def(
            "wait",
            [](Agent& self, const std::string& address, const std::string& service,
               const std::string& method, const nb::bytes& message, double within,
               double deadline) {
                WaitMessage order{
                    service, method, as_string(message),
                    std::chrono::duration_cast<std::chrono::milliseconds>(as_duration(within))};
                auto call = unlocked([&] {
                    return self.peers().wait(address, order.encode(), order.within,
                                             as_duration(deadline));
                });
                return std::move(value_or_raise(call));
            },
            "address"_a, "service"_a, "method"_a, "message"_a, nb::kw_only(), "within"_a,
            "deadline"_a, nb::keep_alive<0, 1>(),
            "As `AgentClient.wait`; it may take `deadline` to connect, so it is not for the loop.")
        .def(
            "pull",
            [](Agent& self, std::uint64_t ticket, const nb::bytes& key, std::string source,
               Tier tier, double deadline) {
                self.requests().pull(ticket, {as_string(key), std::move(source), tier},
                                     as_duration(deadline));
            },
            "ticket"_a, "key"_a, "source"_a, "tier"_a, "deadline"_a,
            "Copy an object from another agent. Ends as a PulledEvent or a FailedEvent.")
        .def(
            "next_event", [](Agent& self) { return self.events().next(); },
            "What happened next, or None.");
}
