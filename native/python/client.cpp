// holdfast._core.AgentClient: requests to agents. The GIL is released around everything that
// blocks.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <optional>

#include "agent/agent_client.hpp"
#include "python/bind.hpp"
#include "python/buffer.hpp"
#include "python/convert.hpp"
#include "python/raise.hpp"
#include "python/receive.hpp"
#include "rpc/congestion.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace holdfast;

namespace {

// A descriptor if the object lies in a file of this node, its bytes otherwise.
nb::tuple descriptor_or_bytes(Exchange& exchange) {
    if (Fd descriptor = exchange.take_descriptor()) {
        auto info = ObjectInfo::decode(exchange.meta());
        std::uint64_t size = value_or_raise(info).size;
        return nb::make_tuple(descriptor.release(), size);
    }
    return nb::make_tuple(nb::none(), read_bytes(exchange));
}

bool python_signal() {
    nb::gil_scoped_acquire acquire;
    return PyErr_CheckSignals() != 0;
}

}  // namespace

void bind_client(nb::module_& module) {
    module.def(
        "choose_congestion_control",
        [](const std::string& wanted) {
            auto name = choose_congestion_control(wanted);
            return value_or_raise(name);
        },
        "wanted"_a,
        "Choose that of this process's TCP connections: auto, system or a name. Returns the name.");
    interrupted = python_signal;

    nb::enum_<Tier>(module, "Tier", "Where an object lies on a node.")
        .value("MEMORY", Tier::Memory)
        .value("DISK", Tier::Disk);

    nb::class_<ObjectInfo>(module, "ObjectInfo", "What a node knows of an object.")
        .def_prop_ro("key", [](const ObjectInfo& self) { return as_bytes(self.key); })
        .def_ro("size", &ObjectInfo::size)
        .def_ro("crc32c", &ObjectInfo::crc)
        .def_ro("tier", &ObjectInfo::tier)
        .def_ro("has_source", &ObjectInfo::has_source)
        .def_ro("copies", &ObjectInfo::copies)
        .def_prop_ro("header", [](const ObjectInfo& self) { return as_bytes(self.header.bytes); });

    nb::class_<PendingCall>(module, "PendingCall",
                            "A call that is answered later; dropping the last reference to it "
                            "cancels it. Safe for threads.")
        .def(
            "result",
            [](PendingCall& self) {
                auto answer = unlocked([&] { return self.result(); });
                return as_bytes(value_or_raise(answer));
            },
            "Wait for the answer, as long as the agent sends heartbeats.")
        .def_prop_ro(
            "done", [](PendingCall& self) { return unlocked([&] { return self.done(); }); },
            "Whether `result` has something to tell at once.")
        .def(
            "cancel", [](PendingCall& self) { unlocked([&] { self.cancel(); }); },
            "Wait no longer; the agent is told.");

    nb::class_<AgentClient> client(
        module, "AgentClient",
        "Requests to agents by address; safe for threads and for fork.\n\n"
        "Every request takes `deadline`, the seconds of silence it bears.");
    client
        .def(
            "__init__",
            [](AgentClient* self, const nb::bytes& job_key) {
                new (self) AgentClient(as_string(job_key));
            },
            "job_key"_a)
        .def(
            "put",
            [](AgentClient& self, const std::vector<std::string>& addresses,
               const std::vector<std::uint64_t>& owners, const nb::bytes& key, nb::handle data,
               Tier tier, double deadline, const nb::bytes& header, std::uint16_t up_to,
               const std::vector<std::uint64_t>& without, bool hand) {
                Buffer buffer(data, PyBUF_SIMPLE);
                std::string name = as_string(key);
                auto about = ObjectHeader::of(as_string(header));
                raise_unless_ok(unlocked([&] {
                    return self.put(addresses, owners, name, {buffer.data(), buffer.size()}, tier,
                                    as_duration(deadline),
                                    {.header = std::move(about),
                                     .up_to = up_to,
                                     .without = without,
                                     .hand = hand});
                }));
            },
            "addresses"_a, "owners"_a, "key"_a, "data"_a, nb::kw_only(), "tier"_a = Tier::Memory,
            "deadline"_a = 5.0, "header"_a = nb::bytes(""), "up_to"_a = 0,
            "without"_a = std::vector<std::uint64_t>(), "hand"_a = true,
            nb::sig(
                "def put(self, addresses: collections.abc.Sequence[str], owners: "
                "collections.abc.Sequence[int], key: bytes, data: typing_extensions.Buffer, "
                "*, tier: Tier = ..., deadline: float = 5.0, header: bytes = b'', up_to: int = 0, "
                "without: collections.abc.Sequence[int] = (), hand: bool = True) -> None"),
            "Store `data` at all owners, in order; returns when all have it.\n\n"
            "`owners` are the members that the placement gives for as many copies, as if those "
            "`without` owned\nnothing; an agent whose view gives others, or that does not suspect "
            "who is left out, refuses with\nStaleView. With `up_to` they are as many as live, up "
            "to that number. An agent of this host lets us write\nlarge data to a file of its "
            "tier, unless `hand` is false. Who receives bytes verifies them\nbefore; what we write "
            "ourselves is verified when it is sent on, and by the scrub.")
        .def(
            "get",
            [](AgentClient& self, const std::string& address, const nb::bytes& key,
               std::uint64_t offset, std::optional<std::uint64_t> length, std::uint64_t member,
               double deadline) {
                GetMessage message{as_string(key), offset, length.value_or(kToTheEnd), member};
                auto exchange = unlocked(
                    [&] { return self.get(address, message, false, as_duration(deadline)); });
                return read_bytes(value_or_raise(exchange));
            },
            "address"_a, "key"_a, nb::kw_only(), "offset"_a = 0, "length"_a = nb::none(),
            "member"_a = 0, "deadline"_a = 5.0,
            nb::sig(
                "def get(self, address: str, key: bytes, *, offset: int = 0, length: int | None = "
                "None, member: int = 0, deadline: float = 5.0) -> bytes"),
            "Bytes of an object, verified.\n\n"
            "If it is not there and another than `member` lives at the address: Unavailable.")
        .def(
            "get_into",
            [](AgentClient& self, const std::string& address, const nb::bytes& key, nb::handle out,
               std::uint64_t member, double deadline) {
                Buffer buffer(out, PyBUF_WRITABLE);
                GetMessage message{as_string(key), 0, kToTheEnd, member};
                auto exchange = unlocked(
                    [&] { return self.get(address, message, false, as_duration(deadline)); });
                raise_unless_ok(receive_into(value_or_raise(exchange), buffer));
                return exchange->reply().body_bytes;
            },
            "address"_a, "key"_a, "out"_a, "member"_a = 0, "deadline"_a = 5.0,
            nb::sig("def get_into(self, address: str, key: bytes, out: typing_extensions.Buffer, "
                    "member: int = 0, deadline: float = 5.0) -> int"),
            "Receive an object into a buffer; gives its size.")
        .def(
            "open",
            [](AgentClient& self, const std::string& address, const nb::bytes& key,
               std::uint64_t member, double deadline) {
                GetMessage message{as_string(key), 0, kToTheEnd, member};
                auto exchange = unlocked(
                    [&] { return self.get(address, message, true, as_duration(deadline)); });
                return descriptor_or_bytes(value_or_raise(exchange));
            },
            "address"_a, "key"_a, "member"_a = 0, "deadline"_a = 5.0,
            nb::sig("def open(self, address: str, key: bytes, member: int = 0, deadline: float = "
                    "5.0) -> tuple[int, int] | tuple[None, bytes]"),
            "A read-only descriptor and the size where the agent can pass one, else the bytes.")
        .def(
            "stat",
            [](AgentClient& self, const std::string& address, const nb::bytes& key,
               std::uint64_t member, double deadline) {
                std::string name = as_string(key);
                auto info = unlocked(
                    [&] { return self.stat(address, name, as_duration(deadline), member); });
                return value_or_raise(info);
            },
            "address"_a, "key"_a, "member"_a = 0, "deadline"_a = 5.0)
        .def(
            "verify",
            [](AgentClient& self, const std::string& address, const nb::bytes& key,
               double deadline) {
                std::string name = as_string(key);
                auto info =
                    unlocked([&] { return self.verify(address, name, as_duration(deadline)); });
                return value_or_raise(info);
            },
            "address"_a, "key"_a, "deadline"_a = 5.0,
            "Make the agent read its copy again; a bad one is dropped and raises Damaged.")
        .def(
            "list_page",
            [](AgentClient& self, const std::string& address, const nb::bytes& prefix,
               const nb::bytes& after, double deadline) {
                ListMessage message{as_string(prefix), as_string(after)};
                auto reply =
                    unlocked([&] { return self.list(address, message, as_duration(deadline)); });
                auto& page = value_or_raise(reply);
                return std::make_tuple(page.objects, page.more);
            },
            "address"_a, "prefix"_a = nb::bytes(""), "after"_a = nb::bytes(""), "deadline"_a = 5.0,
            nb::sig("def list_page(self, address: str, prefix: bytes = b'', after: bytes = b'', "
                    "deadline: float = 5.0) -> tuple[list[ObjectInfo], bool]"),
            "A page of objects in the order of keys, and whether there are more.")
        .def(
            "drop",
            [](AgentClient& self, const std::string& address, const nb::bytes& key,
               const std::vector<std::uint64_t>& owners, double deadline, std::uint16_t copies,
               const std::vector<std::uint64_t>& without) {
                DropMessage message{as_string(key), owners, copies, without};
                raise_unless_ok(
                    unlocked([&] { return self.drop(address, message, as_duration(deadline)); }));
            },
            "address"_a, "key"_a, "owners"_a, nb::kw_only(), "deadline"_a = 5.0, "copies"_a = 0,
            "without"_a = std::vector<std::uint64_t>(),
            nb::sig("def drop(self, address: str, key: bytes, owners: "
                    "collections.abc.Sequence[int], *, deadline: float = 5.0, copies: int = 0, "
                    "without: collections.abc.Sequence[int] = ()) -> None"),
            "Remove an object there for ever, whether it is there or not.\n\n"
            "`owners` are the members that the placement gives for its copies, as for a put; "
            "`copies` is how\nmany they were to be, if not as many live.")
        .def(
            "drop_below",
            [](AgentClient& self, const std::string& address, const nb::bytes& prefix,
               std::uint64_t version, double deadline) {
                Watermark mark{as_string(prefix), version};
                raise_unless_ok(unlocked(
                    [&] { return self.drop_below(address, mark, as_duration(deadline)); }));
            },
            "address"_a, "prefix"_a, "version"_a, "deadline"_a = 5.0,
            "Remove all objects there for ever whose keys are `prefix`, a version below "
            "`version`,\n"
            "and nothing else, or a slash and anything.")
        .def(
            "call",
            [](AgentClient& self, const std::string& address, const std::string& service,
               const std::string& method, const nb::bytes& message, double deadline) {
                std::string body = as_string(message);
                auto reply = unlocked([&] {
                    return self.call(address, {service, method}, body, as_duration(deadline));
                });
                return as_bytes(value_or_raise(reply));
            },
            "address"_a, "service"_a, "method"_a, "message"_a, "deadline"_a = 5.0,
            "Ask a service on the Python side of an agent.")
        .def(
            "wait",
            [](AgentClient& self, const std::string& address, const std::string& service,
               const std::string& method, const nb::bytes& message, double within,
               double deadline) {
                WaitMessage order{
                    service, method, as_string(message),
                    std::chrono::duration_cast<std::chrono::milliseconds>(as_duration(within))};
                auto call =
                    unlocked([&] { return self.wait(address, order, as_duration(deadline)); });
                return std::move(value_or_raise(call));
            },
            "address"_a, "service"_a, "method"_a, "message"_a, nb::kw_only(), "within"_a = 30.0,
            "deadline"_a = 5.0, nb::keep_alive<0, 1>(),
            "Ask a service that may answer late, and go on meanwhile.\n\n"
            "The agent has `within` to answer, and must send heartbeats: `deadline` is how many "
            "seconds of its silence are borne. All such calls to an agent share a connection.")
        .def(
            "close", [](AgentClient& self) { self.connections().close_idle(); },
            "Close the connections that are idle; the next request opens new ones.");
    bind_boxes(client);
    bind_reading(module, client);
}
