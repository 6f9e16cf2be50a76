// Files of the shared file system: what holdfast._core.AgentClient asks of their owners, and what
// holdfast._core.Agent knows of them.
#include "files/files.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "base/backoff.h"
#include "files/listing.hpp"
#include "files/owner_walk.hpp"
#include "python/bind.hpp"
#include "python/receive.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace holdfast;

namespace {

struct OpenedFile {
    int descriptor;
    Attributes attributes;
    std::uint64_t begin, size;
};

Result<PartReply> as_passed(const std::string& meta, bool in_parts) {
    if (in_parts) return PartReply::decode(meta);
    auto attributes = Attributes::decode(meta);
    if (!attributes.ok()) return attributes.take_status();
    return PartReply{*attributes, {0, attributes->size}};
}

// Times before 1970 are negative.
std::int64_t as_signed(std::uint64_t ns) {
    return static_cast<std::int64_t>(ns);
}

// A clock of the caller's that may have run for years.
TimePoint as_time(double seconds) {
    seconds = seconds > 0 ? std::min(seconds, 1e9) : 0;
    return TimePoint(std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds)));
}

std::uint64_t as_ms(double seconds) {
    auto since = as_time(seconds).time_since_epoch();
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::milliseconds>(since).count());
}

FileOrder standing_in(const FileOrder& order, bool stands_in) {
    FileOrder asked = order;
    asked.stands_in = stands_in;
    return asked;
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
                verify_copy(remote.connections(), address, order, exchange->meta(),
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

    nb::enum_<OnFailure>(module, "OnFailure", "What a request does that meets a failed owner.")
        .value("ABORT", OnFailure::Abort, "It fails.")
        .value("REDIRECT", OnFailure::Redirect, "It goes to the shared file system.")
        .value("RECACHE", OnFailure::Recache, "It goes to the next owner.");
    nb::class_<FileOrder>(module, "FileOrder",
                          "A file below a root that is wanted, and under which policy. Immutable.")
        .def(
            "__init__",
            [](FileOrder* self, const nb::bytes& root, const nb::bytes& path, Tier tier,
               std::uint16_t copies, OnFailure on_failure, bool validate, std::uint64_t largest,
               std::uint64_t settled_ns) {
                new (self) FileOrder{.root = as_string(root),
                                     .path = as_string(path),
                                     .tier = tier,
                                     .copies = copies,
                                     .validate = validate,
                                     .largest = largest,
                                     .settled_ns = settled_ns,
                                     .on_failure = on_failure};
            },
            "root"_a, "path"_a, nb::kw_only(), "tier"_a, "copies"_a = 1,
            "on_failure"_a = OnFailure::Recache, "validate"_a = false, "largest"_a = 0,
            "settled_ns"_a = 0,
            "`validate`: the original is looked at first. Larger files than `largest` are not "
            "cached (0: than a quarter of the tier), those that changed less than `settled_ns` ago "
            "are served but not kept.")
        .def_prop_ro(
            "template", [](const FileOrder& self) { return as_bytes(self.encode_template()); },
            "All but root and path, as the shim and mounts are told it.");
    nb::class_<Attributes>(module, "Attributes", "Of an original, as its `stat` would tell them.")
        .def_ro("mode", &Attributes::mode)
        .def_ro("uid", &Attributes::uid)
        .def_ro("gid", &Attributes::gid)
        .def_ro("nlink", &Attributes::nlink)
        .def_ro("inode", &Attributes::inode)
        .def_ro("device", &Attributes::device)
        .def_ro("size", &Attributes::size)
        .def_ro("blocks", &Attributes::blocks)
        .def_prop_ro("atime_ns", [](const Attributes& self) { return as_signed(self.atime_ns); })
        .def_prop_ro("mtime_ns", [](const Attributes& self) { return as_signed(self.mtime_ns); })
        .def_prop_ro("ctime_ns", [](const Attributes& self) { return as_signed(self.ctime_ns); });
    nb::class_<OpenedFile>(module, "OpenedFile", "A file, or a part of it, as an agent passes it.")
        .def_ro("descriptor", &OpenedFile::descriptor)
        .def_ro("attributes", &OpenedFile::attributes, "Of the whole file.")
        .def_ro("begin", &OpenedFile::begin, "Where in the file the descriptor's first byte is.")
        .def_ro("size", &OpenedFile::size, "How many bytes it is of.");
    nb::class_<Trust>(module, "Trust",
                      "Which members to ask for files, and how long to wait for each.\n\n"
                      "One whose connection fails, or that is late `strikes` times in a row, is "
                      "avoided for `avoid` seconds. `now` is the caller's clock.")
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
    module.attr("FILE_DEADLINES") = HF_FILE_DEADLINES;
    nb::class_<hf_backoff>(module, "Backoff",
                           "When to ask the agent of this node again that failed: each failure in "
                           "a row doubles the pause. Safe for threads; `now` is the caller's "
                           "clock.")
        .def("__init__", [](hf_backoff* self) { new (self) hf_backoff{}; })
        .def(
            "backs_off",
            [](const hf_backoff& self, double now) { return hf_backs_off(&self, as_ms(now)); },
            "now"_a, "Whether not to ask now.")
        .def(
            "failed", [](hf_backoff& self, double now) { hf_failed(&self, as_ms(now)); }, "now"_a,
            "It did; of requests that were under way at the same time, only the first counts.")
        .def("answered", [](hf_backoff& self) { hf_answered(&self); }, "It did.");
    nb::class_<OwnerWalk>(module, "OwnerWalk",
                          "Whom to ask for one file, and what to do when an owner fails: as agents "
                          "do.")
        .def(
            "__init__",
            [](OwnerWalk* self, const SharedPlacement& shared, const nb::bytes& key,
               OnFailure on_failure) {
                new (self) OwnerWalk(shared.placement, {key.c_str(), key.size()}, on_failure);
            },
            "placement"_a, "key"_a, "on_failure"_a, "Begin to ask for a file.")
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
    client
        .def(
            "read",
            [](AgentClient& self, const std::string& address, const FileOrder& order,
               bool stands_in, double deadline) {
                return read_whole(self, address, standing_in(order, stands_in), deadline,
                                  [](Exchange& exchange) {
                                      Status status;
                                      auto bytes = receive_bytes(exchange, status);
                                      return std::pair(std::move(status), std::move(bytes));
                                  });
            },
            "address"_a, "order"_a, nb::kw_only(), "stands_in"_a = false, "deadline"_a = 5.0,
            nb::sig("def read(self, address: str, order: FileOrder, *, stands_in: bool = False, "
                    "deadline: float = 5.0) -> bytes"),
            "A file, from the agent's copy or read by it once and kept.\n\n"
            "Files that are larger than ordered, and all that is no regular file, raise "
            "NotCached; what changed a moment ago is served but not kept. Who does not own the "
            "file and does not have it raises StaleView, unless it `stands_in` for an owner that "
            "failed.")
        .def(
            "read_into",
            [](AgentClient& self, const std::string& address, const FileOrder& order,
               nb::handle out, bool stands_in, double deadline) {
                Buffer buffer(out, PyBUF_WRITABLE);
                return read_whole(self, address, standing_in(order, stands_in), deadline,
                                  [&](Exchange& exchange) {
                                      return std::pair(receive_into(exchange, buffer),
                                                       exchange.reply().body_bytes);
                                  });
            },
            "address"_a, "order"_a, "out"_a, nb::kw_only(), "stands_in"_a = false,
            "deadline"_a = 5.0,
            nb::sig("def read_into(self, address: str, order: FileOrder, out: "
                    "typing_extensions.Buffer, *, stands_in: bool = False, deadline: float = 5.0) "
                    "-> int"),
            "The same into a buffer; gives the size of the file.")
        .def(
            "attributes",
            [](AgentClient& self, const std::string& address, const FileOrder& order,
               bool stands_in, double deadline) {
                auto all = unlocked([&] {
                    return self.attributes(address, standing_in(order, stands_in),
                                           as_duration(deadline));
                });
                return value_or_raise(all);
            },
            "address"_a, "order"_a, nb::kw_only(), "stands_in"_a = false, "deadline"_a = 5.0,
            "What `read` would give the attributes of; the file is not opened.")
        .def(
            "warm",
            [](AgentClient& self, const std::string& address, const FileOrder& order,
               bool stands_in, double deadline) {
                auto all = unlocked([&] {
                    return self.warm(address, standing_in(order, stands_in), as_duration(deadline));
                });
                return value_or_raise(all).size;
            },
            "address"_a, "order"_a, nb::kw_only(), "stands_in"_a = false, "deadline"_a = 5.0,
            "Make the agent read a file and keep it, and send nothing; gives its size.")
        .def(
            "open_file",
            [](AgentClient& self, const std::string& address, const FileOrder& order,
               std::optional<std::uint32_t> part, double deadline) {
                FileOrder asked = order;
                asked.part = part;
                auto exchange =
                    unlocked([&] { return self.open_file(address, asked, as_duration(deadline)); });
                auto passed = as_passed(value_or_raise(exchange).meta(), part.has_value());
                const auto& [attributes, range] = value_or_raise(passed);
                return OpenedFile{exchange->take_descriptor().release(), attributes, range.begin,
                                  range.size};
            },
            "address"_a, "order"_a, nb::kw_only(), "part"_a = nb::none(), "deadline"_a = 5.0,
            "A read-only descriptor of a file, from the agent of this host.\n\n"
            "It is of the whole file, or, if one is named and the file is large, a `part` of it. "
            "The agent has it already, reads it if it owns it, or asks its owners. When one fails, "
            "ABORT raises Unavailable, REDIRECT NotCached, and RECACHE goes on "
            "to the next. The descriptor is the caller's to close.");
    module.attr("PART_BYTES") = kPartBytes;
}

void bind_files(nb::module_& module, nb::class_<Agent>& agent) {
    nb::class_<Broadcast::Progress>(module, "BroadcastProgress", "How far a broadcast is.")
        .def_ro("found", &Broadcast::Progress::found, "Files.")
        .def_ro("fetched", &Broadcast::Progress::fetched, "Of these, those that are here.")
        .def_ro("bytes", &Broadcast::Progress::bytes, "Of those that are here.")
        .def_ro("left_out", &Broadcast::Progress::left_out)
        .def_ro("ended", &Broadcast::Progress::ended);
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
            "sleeps meanwhile; afterwards every file is revalidated.\n\n"
            "To be said again before that: the agent hears what others say.")
        .def(
            "distrust_files", [](Agent& self) { self.files().distrust(); },
            "Look at every file again before its copy is next used: this node was away.")
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
            "broadcast_progress", [](Agent& self) { return self.broadcast().progress(); },
            "How far that is.")
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
            nb::kw_only(), "degree"_a, "largest"_a, "tier"_a, "ttl"_a, "strikes"_a, "avoid"_a,
            "file_deadline"_a, "deadline"_a,
            "How to broadcast: children of a node, the largest file that is sent whole, where "
            "copies lie, and for how long they are believed (0: for ever).\n\n"
            "A node above that says nothing for `file_deadline`, and then not even that it lives, "
            "is avoided for `avoid` seconds.")
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
            "row, is avoided for `avoid` seconds. The deadline is four times the slowest answer "
            "that it gave, between `file_deadline` and `deadline`.");
}
