// Files of the shared file system: what holdfast._core.AgentClient asks of their owners, and what
// holdfast._core.Agent knows of them.
#include "files/files.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "files/listing.hpp"
#include "files/owner_walk.hpp"
#include "python/bind.hpp"
#include "python/receive.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace holdfast;

namespace {

FileOrder as_order(const nb::bytes& root, const nb::bytes& path, Tier tier, std::uint16_t copies,
                   bool validate, std::uint64_t largest, std::uint64_t settled_ns, bool stands_in) {
    return {as_string(root), as_string(path), tier,      copies, validate,
            largest,         settled_ns,      stands_in, {}};
}

Result<PartReply> as_passed(const std::string& meta, bool in_parts) {
    if (in_parts) return PartReply::decode(meta);
    auto attributes = Attributes::decode(meta);
    if (!attributes.ok()) return attributes.take_status();
    return PartReply{*attributes, {0, attributes->size}};
}

struct FileOwners {
    PlacementPtr placement;
};

OnFailure as_policy(std::uint8_t on_failure) {
    if (on_failure > static_cast<std::uint8_t>(OnFailure::Recache))
        raise(Status(Code::BadInput,
                     std::to_string(on_failure) + " is not a policy for failures; use 0, 1 or 2"));
    return static_cast<OnFailure>(on_failure);
}

// A clock of the caller's that may have run for years.
TimePoint as_time(double seconds) {
    seconds = seconds > 0 ? std::min(seconds, 1e9) : 0;
    return TimePoint(std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds)));
}

nb::tuple as_tuple(const Attributes& all) {
    auto time = [](std::uint64_t ns) { return static_cast<std::int64_t>(ns); };
    return nb::make_tuple(all.mode, all.uid, all.gid, all.nlink, all.inode, all.device, all.size,
                          all.blocks, time(all.atime_ns), time(all.mtime_ns), time(all.ctime_ns));
}

// What `receive` makes of the body. One that breaks off is asked for once more: if its agent died
// nobody listens now, and if it lives the shared file system failed it.
template <typename Receive>
auto read_whole(AgentClient& remote, const std::string& address, const FileOrder& order,
                double deadline, Receive receive) {
    for (bool again = false;; again = true) {
        auto exchange =
            unlocked([&] { return remote.read(address, order, as_duration(deadline)); });
        auto [status, result] = receive(value_or_raise(exchange));
        if (status.code() == Code::Unavailable) {
            if (!again) continue;
            status = Status(Code::NotCached, order.path + " was cut off while it was transferred");
        }
        // A copy that came damaged must not be served again.
        if (status.code() == Code::Damaged)
            unlocked([&] {
                verify_copy(remote.client(), address, order, exchange->meta(),
                            as_duration(deadline));
            });
        raise_unless_ok(status);
        return result;
    }
}

}  // namespace

void bind_reading(nb::module_& module, nb::class_<AgentClient>& client) {
    module.attr("MOST_ASKED") = OwnerWalk::kMostAsked;
    // The owner of a file follows from this and its path.
    module.attr("FILE_PREFIX") = nb::bytes(kFilePrefix, sizeof kFilePrefix - 1);

    nb::class_<Trust>(module, "Trust",
                      "Which members to ask for files, and how long to wait for each.\n\n"
                      "One whose connection fails, or that is late `strikes` times in a row, is "
                      "left alone for `avoid` seconds. `now` is the caller's clock.")
        .def(
            "__init__",
            [](Trust* self, std::uint32_t strikes, double avoid, double file_deadline,
               double deadline) {
                new (self) Trust({strikes, as_duration(avoid), as_duration(file_deadline),
                                  as_duration(deadline)});
            },
            "strikes"_a, "avoid"_a, "file_deadline"_a, "deadline"_a)
        .def(
            "trusts",
            [](const Trust& self, std::uint64_t member, double now) {
                return self.trusts(member, as_time(now));
            },
            "member"_a, "now"_a, "Whether to ask it; if not, it failed a moment ago.")
        .def(
            "deadline",
            [](const Trust& self, std::uint64_t member) {
                return std::chrono::duration<double>(self.deadline(member)).count();
            },
            "member"_a, "How long its first byte may take, in seconds.")
        .def(
            "answered",
            [](Trust& self, std::uint64_t member, double seconds) {
                self.answered(member, as_duration(seconds));
            },
            "member"_a, "seconds"_a, "It answered, after so long.")
        .def(
            "failed",
            [](Trust& self, std::uint64_t member, bool late, double now) {
                self.failed(member, late, as_time(now));
            },
            "member"_a, "late"_a, "now"_a, "It missed its deadline, or its connection failed.");
    nb::class_<OwnerWalk>(module, "OwnerWalk",
                          "Whom to ask for one file, and what to do when an owner fails: as agents "
                          "do.")
        .def(
            "next",
            [](OwnerWalk& self, const Trust& trust, double now) -> std::optional<std::uint64_t> {
                auto node = self.next(trust, as_time(now));
                if (!node) return std::nullopt;
                return self.placement().numbers[*node];
            },
            "trust"_a, "now"_a,
            "The member to ask now, the same until it failed. None: the shared file system is to "
            "be read, or, if it `aborts`, nothing.")
        .def("failed", &OwnerWalk::failed, "The one that was to be asked did.")
        .def_prop_ro("stands_in", &OwnerWalk::stands_in,
                     "Whether those before the one to ask failed.")
        .def_prop_ro("aborts", &OwnerWalk::aborts, "Whether a failure ends the reading, too.")
        .def_prop_ro("reason", &OwnerWalk::reason, "Why it does.");
    nb::class_<FileOwners>(module, "FileOwners",
                           "Who owns files in one view. Immutable.\n\n"
                           "numbers[i] is the member on ring.nodes[i]; `with_lost` is the ring "
                           "with the nodes on it whose members were lost, if any.")
        .def(
            "__init__",
            [](FileOwners* self, const Ring& ring, std::vector<std::uint64_t> numbers,
               std::optional<Ring> with_lost) {
                if (numbers.size() != ring.nodes().size())
                    raise(Status(Code::BadInput, std::to_string(numbers.size()) +
                                                     " members for the " +
                                                     std::to_string(ring.nodes().size()) +
                                                     " nodes of the ring; give one for each"));
                new (self) FileOwners{std::make_shared<const Placement>(
                    Placement{.ring = ring,
                              .numbers = std::move(numbers),
                              .addresses = {},
                              .with_lost = std::move(with_lost)})};
            },
            "ring"_a, "numbers"_a, "with_lost"_a = nb::none(),
            nb::sig("def __init__(self, ring: Ring, numbers: collections.abc.Sequence[int], "
                    "with_lost: Ring | None = None) -> None"))
        .def(
            "walk",
            [](const FileOwners& self, const nb::bytes& key, std::uint8_t on_failure) {
                return OwnerWalk(self.placement, {key.c_str(), key.size()}, as_policy(on_failure));
            },
            "key"_a, "on_failure"_a,
            "Begin to ask for a file; `on_failure` is as for `AgentClient.open_file`.");
    client
        .def(
            "read",
            [](AgentClient& self, const std::string& address, const nb::bytes& root,
               const nb::bytes& path, Tier tier, std::uint16_t copies, bool validate,
               std::uint64_t largest, std::uint64_t settled_ns, bool stands_in, double deadline) {
                auto order =
                    as_order(root, path, tier, copies, validate, largest, settled_ns, stands_in);
                return read_whole(self, address, order, deadline, [](Exchange& exchange) {
                    Status status;
                    auto bytes = receive_bytes(exchange, status);
                    return std::pair(std::move(status), std::move(bytes));
                });
            },
            "address"_a, "root"_a, "path"_a, "tier"_a, "copies"_a, "validate"_a, "largest"_a,
            "settled_ns"_a, "stands_in"_a, "deadline"_a = 5.0,
            nb::sig("def read(self, address: str, root: bytes, path: bytes, tier: Tier, copies: "
                    "int, validate: bool, largest: int, settled_ns: int, stands_in: bool, "
                    "deadline: float = 5.0) "
                    "-> bytes"),
            "A file below `root`, from the agent's copy or read by it once and kept.\n\n"
            "`validate`: the agent looks at the file first. Files of more than `largest` bytes, "
            "and all that is no regular file, raise NotCached; what changed less than `settled_ns` "
            "ago is served but not kept. Who does not own the file and does not have it raises "
            "StaleView, unless it `stands_in` for an owner that failed.")
        .def(
            "read_into",
            [](AgentClient& self, const std::string& address, const nb::bytes& root,
               const nb::bytes& path, Tier tier, std::uint16_t copies, bool validate,
               std::uint64_t largest, std::uint64_t settled_ns, bool stands_in, nb::handle out,
               double deadline) {
                Buffer buffer(out, PyBUF_WRITABLE);
                auto order =
                    as_order(root, path, tier, copies, validate, largest, settled_ns, stands_in);
                return read_whole(self, address, order, deadline, [&](Exchange& exchange) {
                    return std::pair(receive_into(exchange, buffer), exchange.reply().body_bytes);
                });
            },
            "address"_a, "root"_a, "path"_a, "tier"_a, "copies"_a, "validate"_a, "largest"_a,
            "settled_ns"_a, "stands_in"_a, "out"_a, "deadline"_a = 5.0,
            nb::sig(
                "def read_into(self, address: str, root: bytes, path: bytes, tier: Tier, "
                "copies: int, validate: bool, largest: int, settled_ns: int, stands_in: bool, out: "
                "typing_extensions.Buffer, deadline: float = 5.0) -> int"),
            "The same into a buffer; gives the size of the file.")
        .def(
            "attributes",
            [](AgentClient& self, const std::string& address, const nb::bytes& root,
               const nb::bytes& path, Tier tier, std::uint16_t copies, bool validate,
               std::uint64_t largest, std::uint64_t settled_ns, bool stands_in, double deadline) {
                auto order =
                    as_order(root, path, tier, copies, validate, largest, settled_ns, stands_in);
                auto all = unlocked(
                    [&] { return self.attributes(address, order, as_duration(deadline)); });
                return as_tuple(value_or_raise(all));
            },
            "address"_a, "root"_a, "path"_a, "tier"_a, "copies"_a, "validate"_a, "largest"_a,
            "settled_ns"_a, "stands_in"_a, "deadline"_a = 5.0,
            nb::sig("def attributes(self, address: str, root: bytes, path: bytes, tier: Tier, "
                    "copies: int, validate: bool, largest: int, settled_ns: int, stands_in: bool, "
                    "deadline: float = "
                    "5.0) -> tuple[int, int, int, int, int, int, int, int, int, int, int]"),
            "What `read` would give the attributes of; the file is not opened.\n\n"
            "mode, uid, gid, nlink, inode, device, size, blocks, then atime, mtime and ctime in "
            "ns.")
        .def(
            "warm",
            [](AgentClient& self, const std::string& address, const nb::bytes& root,
               const nb::bytes& path, Tier tier, std::uint16_t copies, bool validate,
               std::uint64_t largest, std::uint64_t settled_ns, bool stands_in, double deadline) {
                auto order =
                    as_order(root, path, tier, copies, validate, largest, settled_ns, stands_in);
                auto all =
                    unlocked([&] { return self.warm(address, order, as_duration(deadline)); });
                return value_or_raise(all).size;
            },
            "address"_a, "root"_a, "path"_a, "tier"_a, "copies"_a, "validate"_a, "largest"_a,
            "settled_ns"_a, "stands_in"_a, "deadline"_a = 5.0,
            nb::sig("def warm(self, address: str, root: bytes, path: bytes, tier: Tier, copies: "
                    "int, validate: bool, largest: int, settled_ns: int, stands_in: bool, "
                    "deadline: float = 5.0) "
                    "-> int"),
            "Make the agent read a file and keep it, and send nothing; gives its size.")
        .def(
            "open_file",
            [](AgentClient& self, const std::string& address, const nb::bytes& root,
               const nb::bytes& path, Tier tier, std::uint16_t copies, bool validate,
               std::uint64_t largest, std::uint64_t settled_ns, std::uint8_t on_failure,
               double deadline, std::optional<std::uint32_t> part) {
                OpenMessage message{
                    as_policy(on_failure),
                    as_order(root, path, tier, copies, validate, largest, settled_ns, false)};
                message.order.part = part;
                auto exchange = unlocked(
                    [&] { return self.open_file(address, message, as_duration(deadline)); });
                auto passed = as_passed(value_or_raise(exchange).meta(), part.has_value());
                nb::tuple attributes = as_tuple(value_or_raise(passed).attributes);
                return nb::make_tuple(exchange->take_descriptor().release(), attributes,
                                      passed->range.begin, passed->range.size);
            },
            "address"_a, "root"_a, "path"_a, "tier"_a, "copies"_a, "validate"_a, "largest"_a,
            "settled_ns"_a, "on_failure"_a, "deadline"_a = 5.0, "part"_a = nb::none(),
            nb::sig("def open_file(self, address: str, root: bytes, path: bytes, tier: Tier, "
                    "copies: int, validate: bool, largest: int, settled_ns: int, on_failure: "
                    "int, deadline: float = 5.0, part: int | None = None) -> tuple[int, tuple[int, "
                    "int, int, int, int, int, int, int, int, int, int], int, int]"),
            "A read-only descriptor of a file, the file's attributes, and where in the file begins "
            "what the descriptor is of, and how much that is; from the agent of this host.\n\n"
            "That is the whole file, or, if one is named and the file is large, a `part` of it. "
            "The agent has it already, reads it if it owns it, or asks its owners. When one fails, "
            "`on_failure` 0 (abort) raises Unavailable, 1 (redirect) NotCached, and 2 (recache) "
            "goes on to the next. The descriptor is the caller's to close.");
    module.attr("PART_BYTES") = kPartBytes;
}

void bind_files(nb::class_<Agent>& agent) {
    agent
        .def(
            "refresh_files",
            [](Agent& self, const std::vector<nb::bytes>& prefixes, std::uint64_t number) {
                std::vector<std::string> paths;
                for (auto& prefix : prefixes) paths.push_back(as_string(prefix));
                return unlocked([&] { return self.files().refresh(paths, number); });
            },
            "prefixes"_a, "number"_a,
            "Forget what is known of paths and of all below them; gives of how many files.\n\n"
            "`number` is the same at all agents that are told, and never used again. "
            "The next reader of each makes the agent look at it; a copy of a file that did not "
            "change is used again.")
        .def(
            "trust_files",
            [](Agent& self, double seconds) { self.files().hear_for(as_duration(seconds)); },
            "seconds"_a,
            "Copies are used without a look at their originals for that long, also if the host "
            "sleeps meanwhile; afterwards every file is looked at again.\n\n"
            "To be said again before that: the agent hears what others say.")
        .def(
            "distrust_files", [](Agent& self) { self.files().distrust(); },
            "Look at every file again before its copy is next used: this node was away.")
        .def(
            "files",
            [](Agent& self) {
                std::uint64_t files = 0, bytes = 0;
                for (Tier tier : {Tier::Memory, Tier::Disk}) {
                    Usage usage = self.store().usage(tier);
                    files += usage.files;
                    bytes += usage.file_bytes;
                }
                auto& reads = self.files().counters();
                auto& opens = self.opener().counters();
                return nb::make_tuple(
                    files, bytes, reads.local + opens.local + opens.fetched, reads.remote.load(),
                    self.files().fill_counters().started.load(), opens.failures.load(),
                    self.store().counters().spilled.load(), reads.no_room.load());
            },
            nb::sig("def files(self) -> tuple[int, int, int, int, int, int, int, int]"),
            "Files and bytes held, reads of programs here and of other nodes, files read from the "
            "shared file system, failures of other nodes, files that went to the disk since memory "
            "had no room, and those that found none at all.")
        .def(
            "publish_attributes",
            [](Agent& self, const std::string& path) {
                raise_unless_ok(self.opener().publish(path));
            },
            "path"_a,
            "Before start(): keep a file there that tells what the originals are like of the "
            "copies that programs have open.")
        .def(
            "broadcast",
            [](Agent& self, const nb::bytes& root, const nb::bytes& path,
               std::uint64_t settled_ns) {
                TreeOrder order{
                    .root = as_string(root), .path = as_string(path), .settled_ns = settled_ns};
                unlocked([&] { self.broadcast().start(std::move(order)); });
            },
            "root"_a, "path"_a, "settled_ns"_a,
            "Bring all below a directory to this node through its trees, in the background.")
        .def(
            "broadcast_progress",
            [](Agent& self) {
                auto now = self.broadcast().progress();
                return nb::make_tuple(now.found, now.fetched, now.bytes, now.left_out, now.ended);
            },
            nb::sig("def broadcast_progress(self) -> tuple[int, int, int, int, bool]"),
            "How far that is: files found, those that are here, their bytes, those left out, and "
            "whether it ended.")
        .def(
            "set_tree",
            [](Agent& self, std::uint32_t degree, std::uint64_t largest, Tier tier, double ttl,
               std::uint32_t strikes, double avoid, double file_deadline, double deadline) {
                if (degree < 2)
                    raise(Status(Code::BadInput, "a tree cannot have the degree " +
                                                     std::to_string(degree) + "; use at least 2"));
                Duration longest = ttl > 0 ? as_duration(ttl) : Duration::max();
                self.tree().set({degree,
                                 largest,
                                 tier,
                                 longest,
                                 {strikes, as_duration(avoid), as_duration(file_deadline),
                                  as_duration(deadline)}});
            },
            "degree"_a, "largest"_a, "tier"_a, "ttl"_a, "strikes"_a, "avoid"_a, "file_deadline"_a,
            "deadline"_a,
            "How to broadcast: children of a node, the largest file that is sent whole, where "
            "copies lie, and for how long they are believed (0: for ever).\n\n"
            "A node above that says nothing for `file_deadline`, and then not even that it lives, "
            "is left alone for `avoid` seconds.")
        .def(
            "set_files",
            [](Agent& self, std::uint32_t strikes, double avoid, double file_deadline,
               double deadline) {
                self.opener().set({strikes, as_duration(avoid), as_duration(file_deadline),
                                   as_duration(deadline)});
            },
            "strikes"_a, "avoid"_a, "file_deadline"_a, "deadline"_a,
            "How to fetch files of others for programs of this node.\n\n"
            "A member whose connection fails, or that misses its deadline `strikes` times in a "
            "row, is left alone for `avoid` seconds. The deadline is four times the slowest answer "
            "that it gave, between `file_deadline` and `deadline`.");
}
