// The part of holdfast._core.Agent that speaks with other agents: nothing here waits for them
// but `call`, which is not for the loop.
#include "agent/requests.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <array>

#include "python/bind.hpp"
#include "python/convert.hpp"
#include "python/raise.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace holdfast;

namespace {

// Each kind of event as the tuple that Python gets.
struct AsTuple {
    nb::tuple operator()(const event::Answered& one) const {
        return nb::make_tuple("answered", one.ticket, one.age_ms, one.identity, as_bytes(one.news));
    }
    nb::tuple operator()(const event::Heard& one) const {
        return nb::make_tuple("heard", one.identity, one.sender, as_bytes(one.news));
    }
    nb::tuple operator()(const event::Reply& one) const {
        return nb::make_tuple("reply", one.ticket, as_bytes(one.message));
    }
    nb::tuple operator()(const event::Pulled& one) const {
        return nb::make_tuple("pulled", one.ticket, one.size);
    }
    nb::tuple operator()(const event::Doubted& one) const {
        return nb::make_tuple("doubted", one.member, text_of(one.path), name_of(one.status.code()),
                              text_of(one.status.message()));
    }
    nb::tuple operator()(const event::Incident& one) const {
        constexpr std::array<const char*, event::Incident::kKinds> kinds{"waited", "refused",
                                                                         "damaged", "condemned"};
        auto seconds = [](auto duration) {
            return std::chrono::duration<double>(duration).count();
        };
        return nb::make_tuple("incident", kinds.at(one.kind), text_of(one.what), text_of(one.about),
                              one.with, seconds(one.waited), seconds(one.deadline),
                              one.status.ok() ? "" : name_of(one.status.code()),
                              text_of(one.status.message()), seconds(one.ended.time_since_epoch()),
                              one.left_out);
    }
    nb::tuple operator()(const event::Failed& one) const {
        return nb::make_tuple("failed", one.ticket, name_of(one.status.code()),
                              text_of(one.status.message()));
    }
};

std::string checked_news(const nb::bytes& news) {
    if (news.size() > kMaxNews)
        raise(Status(Code::BadInput, "news of " + std::to_string(news.size()) +
                                         " bytes; the limit is " + std::to_string(kMaxNews)));
    return as_string(news);
}

}  // namespace

void bind_requests(nb::class_<Agent>& agent) {
    agent
        .def(
            "set_self", [](Agent& self, std::uint64_t number) { self.set_self(number); },
            "number"_a, "The number of the member that this agent is.")
        .def(
            "set_placement",
            [](Agent& self, const Ring& ring, std::vector<std::uint64_t> numbers,
               std::vector<std::string> addresses, std::uint64_t identity,
               std::vector<std::string> racks, std::optional<Ring> with_lost) {
                if (racks.empty()) racks.resize(numbers.size());
                for (std::size_t count : {numbers.size(), addresses.size(), racks.size()})
                    if (count != ring.nodes().size())
                        raise(Status(Code::BadInput, std::to_string(count) + " members for the " +
                                                         std::to_string(ring.nodes().size()) +
                                                         " nodes of the ring; give one for each"));
                unlocked([&] {
                    self.set_placement(ring, std::move(numbers), std::move(addresses), identity,
                                       std::move(racks), std::move(with_lost));
                });
            },
            "ring"_a, "numbers"_a, "addresses"_a, "identity"_a,
            "racks"_a = std::vector<std::string>(), "with_lost"_a = nb::none(),
            nb::sig("def set_placement(self, ring: Ring, numbers: collections.abc.Sequence[int], "
                    "addresses: collections.abc.Sequence[str], identity: int, racks: "
                    "collections.abc.Sequence[str] = (), with_lost: Ring | None = None) -> None"),
            "Where objects belong from now on: numbers[i] is the member on ring.nodes[i],\n"
            "addresses[i] is where it lives and racks[i] its rack; without racks all share one.\n"
            "`with_lost` is the ring with the nodes on it whose members were lost, if any.")
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
            "ticket"_a, "address"_a, "via"_a, "news"_a, "deadline"_a, "member"_a = 0,
            "Ask the agent at `address` for a sign of life, or the one at `via` to ask it.\n\n"
            "With `member` only that one may answer. Ends as an event `answered` or `failed`.")
        .def(
            "ask",
            [](Agent& self, std::uint64_t ticket, std::string address, std::string service,
               std::string method, const nb::bytes& message, double deadline) {
                self.requests().ask(ticket, std::move(address),
                                    {std::move(service), std::move(method)}, as_string(message),
                                    as_duration(deadline));
            },
            "ticket"_a, "address"_a, "service"_a, "method"_a, "message"_a, "deadline"_a,
            "Call a service of another agent. Ends as an event `reply` or `failed`.")
        .def(
            "call",
            [](Agent& self, const std::string& address, const std::string& service,
               const std::string& method, const nb::bytes& message, double deadline) {
                std::string body = as_string(message);
                Question question{.op = Op::Call,
                                  .meta = CallMessage{service, method}.encode(),
                                  .body = body,
                                  .to_the_dead = true};
                auto reply = unlocked([&] {
                    return self.peers().ask_text(address, question, as_duration(deadline));
                });
                return as_bytes(value_or_raise(reply));
            },
            "address"_a, "service"_a, "method"_a, "message"_a, "deadline"_a,
            "Call a service of another agent and wait for the answer: not for the agent's loop.")
        .def(
            "pull",
            [](Agent& self, std::uint64_t ticket, const nb::bytes& key, std::string source,
               Tier tier, double deadline) {
                self.requests().pull(ticket, {as_string(key), std::move(source), tier},
                                     as_duration(deadline));
            },
            "ticket"_a, "key"_a, "source"_a, "tier"_a, "deadline"_a,
            "Copy an object from another agent. Ends as an event `pulled` or `failed`.")
        .def(
            "next_event",
            [](Agent& self) -> nb::object {
                auto event = self.events().next();
                return event ? nb::object(std::visit(AsTuple(), *event)) : nb::none();
            },
            nb::sig("def next_event(self) -> tuple[typing.Literal['answered'], int, int, int, "
                    "bytes] | tuple[typing.Literal['heard'], int, int, bytes] | "
                    "tuple[typing.Literal['reply'], int, bytes] | "
                    "tuple[typing.Literal['pulled'], int, int] | "
                    "tuple[typing.Literal['doubted'], int, str, str, str] | "
                    "tuple[typing.Literal['incident'], str, str, str, str, float, float, str, str, "
                    "float, int] | "
                    "tuple[typing.Literal['failed'], int, str, str] | None"),
            "What happened next, or None:\n\n"
            "answered, ticket, age of its Python loop in ms, identity of its view, news;\n"
            "heard, identity, number of the sender, news: a probe that tells us something;\n"
            "reply, ticket, message; pulled, ticket, size; doubted, number of a member that failed "
            "us, path, name of the error, text;\n"
            "incident, kind, what was asked for, key or path, address of the other agent, seconds "
            "it took, its deadline, name of the error or nothing, text, when it ended by the boot "
            "clock, how many of its kind were left out before it; failed, ticket, name of the "
            "error, text.");
}
