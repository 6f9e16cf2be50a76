"""The C++ core of Holdfast: hashing, placement, store and transport."""

from collections.abc import Sequence
import enum
from typing import Literal, NoReturn

from typing_extensions import Buffer


def crc32c(data: Buffer, value: int = 0) -> int:
    """CRC-32C of a contiguous buffer, after bytes whose checksum is `value`."""

def crc32c_at(addresses: Buffer, sizes: Buffer, values: Buffer) -> None:
    """
    Put the CRC-32C of each piece of this process's memory into `values` (32-bit words).

    `addresses` and `sizes` are arrays of 64-bit words; the memory must be there.
    """

def xxh3_64(data: bytes, seed: int = 0) -> int:
    """XXH3 with 64 bits."""

def hmac_sha256(key: bytes, data: bytes) -> bytes:
    """What only who knows the key can compute, and does not tell it."""

class Ring:
    """holdfast.placement.ring.Ring at full speed."""

    def __init__(self, nodes: Sequence[str], virtual_nodes: int = 100) -> None: ...

    def shares(self) -> list[float]:
        """
        The share of all keys that each node owns first, in the order of `nodes`.
        """

    @property
    def nodes(self) -> list[str]:
        """Sorted names."""

    def owners(self, key: bytes, count: int = 1) -> list[str]:
        """The first `count` distinct nodes for `key`, fewer if there are fewer."""

class SlotTable:
    """
    Who owns the keys that begin with `prefix`: each slot has the numbers of its members, in
    order. A put may leave out `may_leave_out` owners that failed.
    """

    def __init__(self, prefix: bytes, slots: Sequence[Sequence[int]], may_leave_out: int = 0) -> None: ...

class WindowTable:
    """
    holdfast.placement.windows.WindowTable at full speed. A roster is its id, its nodes and its role,
    a member that lives is its number, node, host, rack and role.
    """

    def __init__(self, rosters: Sequence[tuple[str, Sequence[str], str]] = (), members: Sequence[tuple[int, str, str, str, str]] = ()) -> None: ...

class Placement:
    """
    Where objects belong in one view, for its members. Immutable.

    numbers[i] is the member on ring.nodes[i], addresses[i] is where it lives and racks[i]
    its rack; without racks all share one. `with_lost` is the ring with the nodes on it whose
    members were lost, if any. `tables` are of the key spaces; the longest prefix of a key counts,
    `windows` have the keys that begin with @space/ but for @space/names/, and the ring has all
    others.
    """

    def __init__(self, ring: Ring, numbers: Sequence[int], addresses: Sequence[str], *, identity: int, racks: Sequence[str] = (), with_lost: Ring | None = None, tables: Sequence[SlotTable] = (), windows: WindowTable | None = None) -> None: ...

    @property
    def ring(self) -> Ring:
        """Of those who live."""

    def owners(self, key: bytes, copies: int, without: Sequence[int] = ()) -> list[int]:
        """
        The numbers of the owners of `key`, fewer if there are fewer. In a key space or a
        window those `without` own nothing.
        """

class Trees:
    """holdfast.placement.trees.Trees at full speed."""

    def __init__(self, ring: Ring, racks: Sequence[str], degree: int) -> None: ...

    def ancestors(self, key: bytes, node: str) -> list[str]:
        """Who stands above `node`: its parent first, the head last."""

def choose_congestion_control(wanted: str) -> str:
    """
    Choose that of this process's TCP connections: auto, system or a name. Returns the name.
    """

class Tier(enum.Enum):
    """Where an object lies on a node."""

    MEMORY = 0

    DISK = 1

class ObjectInfo:
    """What a node knows of an object."""

    @property
    def key(self) -> bytes: ...

    @property
    def size(self) -> int: ...

    @property
    def crc32c(self) -> int: ...

    @property
    def tier(self) -> Tier: ...

    @property
    def has_source(self) -> bool: ...

    @property
    def copies(self) -> int: ...

    @property
    def header(self) -> bytes: ...

class PendingCall:
    """
    A call that is answered later; dropping the last reference to it cancels it. Safe for threads.
    """

    def result(self) -> bytes:
        """Wait for the answer, as long as the agent sends heartbeats."""

    @property
    def done(self) -> bool:
        """Whether `result` has something to tell at once."""

    def cancel(self) -> None:
        """Wait no longer; the agent is told."""

class AgentClient:
    """
    Requests to agents by address; safe for threads and for fork.

    Every request takes `deadline`, the seconds of silence it bears.
    """

    def __init__(self, job_key: bytes) -> None: ...

    def put(self, addresses: Sequence[str], owners: Sequence[int], key: bytes, data: Buffer, *, tier: Tier = ..., deadline: float = 5.0, header: bytes = b'', up_to: int = 0, without: Sequence[int] = (), hand: bool = True) -> None:
        """
        Store `data` at all owners, in order; returns when all have it.

        `owners` are the members that the placement gives for as many copies, as if those `without` owned
        nothing; an agent whose view gives others, or that does not suspect who is left out, refuses with
        StaleView. With `up_to` they are as many as live, up to that number. An agent of this host lets us write
        large data to a file of its tier, unless `hand` is false. Who receives bytes verifies them
        before; what we write ourselves is verified when it is sent on, and by the scrub.
        """

    def get(self, address: str, key: bytes, *, offset: int = 0, length: int | None = None, member: int = 0, deadline: float = 5.0) -> bytes:
        """
        Bytes of an object, verified.

        If it is not there and another than `member` lives at the address: Unavailable.
        """

    def get_into(self, address: str, key: bytes, out: Buffer, member: int = 0, deadline: float = 5.0) -> int:
        """Receive an object into a buffer; gives its size."""

    def open(self, address: str, key: bytes, member: int = 0, deadline: float = 5.0) -> tuple[int, int] | tuple[None, bytes]:
        """
        A read-only descriptor and the size where the agent can pass one, else the bytes.
        """

    def stat(self, address: str, key: bytes, member: int = 0, deadline: float = 5.0) -> ObjectInfo: ...

    def verify(self, address: str, key: bytes, deadline: float = 5.0) -> ObjectInfo:
        """
        Make the agent read its copy again; a bad one is dropped and raises Damaged.
        """

    def list_page(self, address: str, prefix: bytes = b'', after: bytes = b'', deadline: float = 5.0) -> tuple[list[ObjectInfo], bool]:
        """A page of objects in the order of keys, and whether there are more."""

    def drop(self, address: str, key: bytes, owners: Sequence[int], *, deadline: float = 5.0, copies: int = 0, without: Sequence[int] = ()) -> None:
        """
        Remove an object there for ever, whether it is there or not.

        `owners` are the members that the placement gives for its copies, as for a put; `copies` is how
        many they were to be, if not as many live.
        """

    def drop_below(self, address: str, prefix: bytes, version: int, deadline: float = 5.0) -> None:
        """
        Remove all objects there for ever whose keys are `prefix`, a version below `version`,
        and nothing else, or a slash and anything.
        """

    def call(self, address: str, service: str, method: str, message: bytes, deadline: float = 5.0) -> bytes:
        """Ask a service on the Python side of an agent."""

    def wait(self, address: str, service: str, method: str, message: bytes, *, within: float = 30.0, deadline: float = 5.0) -> PendingCall:
        """
        Ask a service that may answer late, and go on meanwhile.

        The agent has `within` to answer, and must send heartbeats: `deadline` is how many seconds of its silence are borne. All such calls to an agent share a connection.
        """

    def close(self) -> None:
        """Close the connections that are idle; the next request opens new ones."""

    def boxes(self, address: str, itemsize: int, entries: Sequence[tuple[bytes, int, Sequence[int], Sequence[int], Sequence[int]]], *, local: bool = False, member: int = 0, deadline: float = 5.0) -> list[memoryview | list[tuple[tuple[int, ...], tuple[int, ...], int, int]] | int]:
        """
        Elements of cells, put together from the pieces that an agent has.

        An entry is the head of the cell's keys, a version, and the starts, counts and steps of what is wanted,
        relative to the cell. For each comes a number, if the agent has not all between the first element and the
        last: 0, it has nothing of it; 2, something of it went bad there; else one that is the same for the same
        parts. Otherwise come its bytes in C order, verified; or, if `local`, perhaps its pieces as starts, counts, a descriptor
        and the size: the caller closes them, and of two that overlap the later counts. If one is not
        there and another than `member` lives at the address: Unavailable.
        """

    def read(self, address: str, order: FileOrder, *, stands_in: bool = False, deadline: float = 5.0) -> bytes:
        """
        A file, from the agent's copy or read by it once and kept.

        Files that are larger than ordered, and all that is no regular file, raise NotCached; what changed a moment ago is served but not kept. Who does not own the file and does not have it raises StaleView, unless it `stands_in` for an owner that failed.
        """

    def read_into(self, address: str, order: FileOrder, out: Buffer, *, stands_in: bool = False, deadline: float = 5.0) -> int:
        """The same into a buffer; gives the size of the file."""

    def attributes(self, address: str, order: FileOrder, *, stands_in: bool = False, deadline: float = 5.0) -> Attributes:
        """What `read` would give the attributes of; the file is not opened."""

    def warm(self, address: str, order: FileOrder, *, stands_in: bool = False, deadline: float = 5.0) -> int:
        """
        Make the agent read a file and keep it, and send nothing; gives its size.
        """

    def open_file(self, address: str, order: FileOrder, *, part: int | None = None, deadline: float = 5.0) -> OpenedFile:
        """
        A read-only descriptor of a file, from the agent of this host.

        It is of the whole file, or, if one is named and the file is large, a `part` of it. The agent has it already, reads it if it owns it, or asks its owners. When one fails, ABORT raises Unavailable, REDIRECT NotCached, and RECACHE goes on to the next. The descriptor is the caller's to close.
        """

MOST_ASKED: int = 4

FILE_PREFIX: bytes = ...

class OnFailure(enum.Enum):
    """What a request does that meets a failed owner."""

    ABORT = 0
    """It fails."""

    REDIRECT = 1
    """It goes to the shared file system."""

    RECACHE = 2
    """It goes to the next owner."""

class FileOrder:
    """A file below a root that is wanted, and under which policy. Immutable."""

    def __init__(self, root: bytes, path: bytes, *, tier: Tier, copies: int = 1, on_failure: OnFailure = OnFailure.RECACHE, validate: bool = False, largest: int = 0, settled_ns: int = 0) -> None:
        """
        `validate`: the original is looked at first. Larger files than `largest` are not cached (0: than a quarter of the tier), those that changed less than `settled_ns` ago are served but not kept.
        """

    @property
    def template(self) -> bytes:
        """All but root and path, as the shim and mounts are told it."""

class Attributes:
    """Of an original, as its `stat` would tell them."""

    @property
    def mode(self) -> int: ...

    @property
    def uid(self) -> int: ...

    @property
    def gid(self) -> int: ...

    @property
    def nlink(self) -> int: ...

    @property
    def inode(self) -> int: ...

    @property
    def device(self) -> int: ...

    @property
    def size(self) -> int: ...

    @property
    def blocks(self) -> int: ...

    @property
    def atime_ns(self) -> int: ...

    @property
    def mtime_ns(self) -> int: ...

    @property
    def ctime_ns(self) -> int: ...

class OpenedFile:
    """A file, or a part of it, as an agent passes it."""

    @property
    def descriptor(self) -> int: ...

    @property
    def attributes(self) -> Attributes:
        """Of the whole file."""

    @property
    def begin(self) -> int:
        """Where in the file the descriptor's first byte is."""

    @property
    def size(self) -> int:
        """How many bytes it is of."""

class Trust:
    """
    Which members to ask for files, and how long to wait for each.

    One whose connection fails, or that is late `strikes` times in a row, is avoided for `avoid` seconds. `now` is the caller's clock.
    """

    def __init__(self, strikes: int, avoid: float, file_deadline: float, deadline: float) -> None: ...

    def trusts(self, member: int, now: float) -> bool:
        """Whether to ask it; if not, it failed a moment ago."""

    def deadline(self, member: int) -> float:
        """How long its first byte may take, in seconds."""

    def answered(self, member: int, seconds: float) -> None:
        """It answered, after so long."""

    def failed(self, member: int, late: bool, now: float) -> None:
        """It missed its deadline, or its connection failed."""

FILE_DEADLINES: int = 10

class Backoff:
    """
    When to ask the agent of this node again that failed: each failure in a row doubles the pause. Safe for threads; `now` is the caller's clock.
    """

    def __init__(self) -> None: ...

    def backs_off(self, now: float) -> bool:
        """Whether not to ask now."""

    def failed(self, now: float) -> None:
        """
        It did; of requests that were under way at the same time, only the first counts.
        """

    def answered(self) -> None:
        """It did."""

class OwnerWalk:
    """
    Whom to ask for one file, and what to do when an owner fails: as agents do.
    """

    def __init__(self, placement: Placement, key: bytes, on_failure: OnFailure) -> None:
        """Begin to ask for a file."""

    def next(self, trust: Trust, now: float) -> int | None:
        """
        The member to ask now, the same until it failed. None: the shared file system is to be read, or, if it `aborts`, nothing.
        """

    def failed(self) -> None:
        """The one that was to be asked did."""

    @property
    def stands_in(self) -> bool:
        """Whether those before the one to ask failed."""

    @property
    def aborts(self) -> bool:
        """Whether a failure ends the reading, too."""

    @property
    def reason(self) -> str:
        """Why it does."""

PART_BYTES: int = 4194304

def status_codes() -> dict[str, int]:
    """Numbers of the failures on the wire, by the name of their exception."""

def log_warning(text: str) -> None:
    """Write a line to the log, which takes a limited number in a second."""

class Call:
    """A call to a service of this agent."""

    @property
    def id(self) -> int: ...

    @property
    def service(self) -> str: ...

    @property
    def method(self) -> str: ...

    @property
    def message(self) -> bytes: ...

    @property
    def within(self) -> float | None:
        """How many seconds it may wait, if it may be parked."""

class Agent:
    """Store and server of one node."""

    def __init__(self, job_key: bytes, *, memory_dir: str, memory_capacity: int, disk_dir: str, disk_capacity: int, scrub_rate: int = 0, huge_pages: bool = False) -> None: ...

    def listen(self, address: str) -> str:
        """Listen there, before start(); gives the address as bound."""

    def start(self) -> None: ...

    def fileno(self) -> int:
        """Readable when there are calls or events."""

    def next_call(self) -> Call | None:
        """The next call to this agent's services, if one waits."""

    def take_cancelled(self) -> list[int]:
        """Parked calls that were taken and whose callers have gone since."""

    def answer(self, call: int, message: bytes) -> None: ...

    def fail(self, call: int, code: str, message: str) -> None:
        """Answer a call with an error, by its name."""

    def counters(self) -> dict[str, int]: ...

    def tiers(self) -> dict[str, dict[str, int]]: ...

    def arm(self, stage: str, action: str, after: int = 1) -> None:
        """
        Kill or stop this process at a later pass of a stage; `nothing` disarms it.
        """

    def pass_point(self, stage: str) -> None:
        """Pass a stage that lies on the Python side."""

    def stop(self) -> None:
        """End all requests and wait for the threads."""

    def set_self(self, number: int) -> None:
        """The number of the member that this agent is."""

    def set_placement(self, placement: Placement) -> None:
        """Where objects belong from now on."""

    def set_suspects(self, numbers: Sequence[int]) -> None:
        """The members that are suspected from now on, and no others."""

    def beat(self) -> None:
        """
        The Python loop is alive; answers to probes tell how long ago that was.
        """

    def set_news(self, news: bytes) -> None:
        """What answers to probes carry back."""

    def probe(self, ticket: int, address: str, *, via: str, news: bytes, deadline: float, member: int = 0) -> None:
        """
        Probe the agent at `address`, or let the one at `via` probe it.

        With `member` only that one may answer. Ends as an AnsweredEvent or a FailedEvent.
        """

    def ask(self, ticket: int, address: str, *, service: str, method: str, message: bytes, deadline: float) -> None:
        """
        Call a service of another agent. Ends as a ReplyEvent or a FailedEvent.
        """

    def wait(self, address: str, service: str, method: str, message: bytes, *, within: float, deadline: float) -> PendingCall:
        """
        As `AgentClient.wait`; it may take `deadline` to connect, so it is not for the loop.
        """

    def pull(self, ticket: int, key: bytes, source: str, tier: Tier, deadline: float) -> None:
        """
        Copy an object from another agent. Ends as a PulledEvent or a FailedEvent.
        """

    def next_event(self) -> AnsweredEvent | HeardEvent | ReplyEvent | PulledEvent | DoubtedEvent | IncidentEvent | FailedEvent | None:
        """What happened next, or None."""

    def survey(self) -> dict[int, tuple[int, int]]:
        """
        For each co-owner: how many objects we hold that both of us own, and their digest.
        """

    def short(self) -> int:
        """How many objects we own first for which there are too few nodes."""

    def buckets_with(self, peer: int) -> list[int]:
        """
        The digest for one co-owner in 64 buckets, by the top 6 bits of xxh3_64.
        """

    def held_with(self, peer: int, buckets: Sequence[int]) -> list[Held]:
        """
        The objects in some buckets of one co-owner.

        Whole buckets in their order, one at least, as many as have 16384 objects together.
        """

    def strays(self, limit: int, after: bytes) -> list[Held]:
        """Objects that we hold and do not own, in the order of keys."""

    def held(self, key: bytes) -> Held | None:
        """What we hold under that key."""

    def trim(self, key: bytes, size: int, crc: int) -> bool:
        """
        Remove exactly that object if we do not own it and nobody has pinned it.
        """

    def raise_copies(self, key: bytes, size: int, crc: int, copies: int, least: int = 0) -> None:
        """Want at least `copies` of exactly that object, if it is here."""

    def has_room(self, tier: Tier, size: int) -> bool:
        """Whether an object of that size would find room at this moment."""

    def move_aside(self, key: bytes, size: int, crc: int, aside: bytes) -> bool:
        """
        Keep exactly that object under another key: another version of it won its own.
        """

    def keys(self, prefix: bytes, limit: int) -> list[bytes]:
        """Keys of objects here that begin so, in order."""

    def notice_digest(self) -> tuple[int, int]:
        """How many notices there are, and the xor of their hashes (xxh3_64)."""

    def notice_buckets(self) -> list[int]:
        """The same xor for each of 256 buckets, by the top byte of the hash."""

    def notices_in(self, buckets: Sequence[int]) -> list[bytes]:
        """All notices of some buckets."""

    def learn(self, notices: Sequence[bytes]) -> int:
        """
        Notices of other members: what was dropped goes, and never comes back.

        Gives how many were new. What is none is ignored.
        """

    def refresh_files(self, prefixes: Sequence[bytes], number: int) -> int:
        """
        Forget what is known of paths and of all below them; gives of how many files.

        `number` is the same at all agents that are told, and never used again. The next reader of each makes the agent look at it; a copy of a file that did not change is used again.
        """

    def trust_files(self, seconds: float) -> None:
        """
        Copies are used without a look at their originals for that long, also if the host sleeps meanwhile; afterwards every file is revalidated.

        To be said again before that: the agent hears what others say.
        """

    def distrust_files(self) -> None:
        """
        Look at every file again before its copy is next used: this node was away.
        """

    def publish_attributes(self, path: str) -> None:
        """
        Before start(): keep a file there that tells what the originals are like of the copies that programs have open.
        """

    def broadcast(self, root: bytes, path: bytes, settled_ns: int) -> None:
        """
        Bring all below a directory to this node through its trees, in the background.
        """

    def broadcast_progress(self) -> BroadcastProgress:
        """How far that is."""

    def set_tree(self, *, degree: int, largest: int, tier: Tier, ttl: float, strikes: int, avoid: float, file_deadline: float, deadline: float) -> None:
        """
        How to broadcast: children of a node, the largest file that is sent whole, where copies lie, and for how long they are believed (0: for ever).

        A node above that says nothing for `file_deadline`, and then not even that it lives, is avoided for `avoid` seconds.
        """

    def set_files(self, strikes: int, avoid: float, file_deadline: float, deadline: float) -> None:
        """
        How to fetch files of others for programs of this node.

        A member whose connection fails, or that misses its deadline `strikes` times in a row, is avoided for `avoid` seconds. The deadline is four times the slowest answer that it gave, between `file_deadline` and `deadline`.
        """

    def file_usage(self) -> FileUsage: ...

    def file_counters(self) -> FileCounters: ...

    def tree_counters(self) -> TreeCounters: ...

class AnsweredEvent:
    """A probe was answered."""

    @property
    def ticket(self) -> int: ...

    @property
    def age(self) -> float: ...

    @property
    def identity(self) -> int: ...

    @property
    def news(self) -> bytes: ...

class HeardEvent:
    """Somebody's probe tells us something."""

    @property
    def identity(self) -> int: ...

    @property
    def sender(self) -> int: ...

    @property
    def news(self) -> bytes: ...

class ReplyEvent:
    """A call was answered."""

    @property
    def ticket(self) -> int: ...

    @property
    def message(self) -> bytes: ...

class PulledEvent:
    """An object was copied to this node."""

    @property
    def ticket(self) -> int: ...

    @property
    def size(self) -> int: ...

class FailedEvent:
    """A request failed."""

    def __init__(self, ticket: int, code: str, message: str) -> None: ...

    @property
    def ticket(self) -> int: ...

    @property
    def code(self) -> str: ...

    @property
    def message(self) -> str: ...

class DoubtedEvent:
    """A member failed a program of this node that wanted a file."""

    @property
    def member(self) -> int: ...

    @property
    def path(self) -> str: ...

    @property
    def code(self) -> str: ...

    @property
    def message(self) -> str: ...

class IncidentEvent:
    """Something for the story of this agent."""

    @property
    def kind(self) -> Literal['waited', 'refused', 'damaged', 'condemned']: ...

    @property
    def what(self) -> str:
        """What was asked for, or the tier."""

    @property
    def about(self) -> str:
        """A key or a path."""

    @property
    def address(self) -> str:
        """Of the other agent, if there was one."""

    @property
    def seconds(self) -> float: ...

    @property
    def deadline(self) -> float: ...

    @property
    def code(self) -> str:
        """The name of the error; nothing if there was none."""

    @property
    def message(self) -> str: ...

    @property
    def ended(self) -> float:
        """When, by the boot clock."""

    @property
    def left_out(self) -> int:
        """How many of its kind, before this one."""

class Held:
    """An object as agents compare it."""

    @property
    def key(self) -> bytes: ...

    @property
    def size(self) -> int: ...

    @property
    def crc32c(self) -> int: ...

    @property
    def tier(self) -> Tier: ...

    @property
    def copies(self) -> int: ...

    @property
    def has_source(self) -> bool: ...

    @property
    def least(self) -> int: ...

class BroadcastProgress:
    """How far a broadcast is."""

    @property
    def found(self) -> int:
        """Files."""

    @property
    def fetched(self) -> int:
        """Of these, those that are here."""

    @property
    def bytes(self) -> int:
        """Of those that are here."""

    @property
    def left_out(self) -> int: ...

    @property
    def ended(self) -> bool: ...

class FileUsage:
    """Copies of files held, and reads of programs here and elsewhere."""

    @property
    def files(self) -> int: ...

    @property
    def bytes(self) -> int: ...

    @property
    def local(self) -> int: ...

    @property
    def remote(self) -> int: ...

class FileCounters:
    """What became of files so far."""

    @property
    def hits(self) -> int: ...

    @property
    def fills(self) -> int: ...

    @property
    def joined(self) -> int: ...

    @property
    def bytes(self) -> int: ...

    @property
    def local(self) -> int: ...

    @property
    def fetched(self) -> int: ...

    @property
    def fetched_bytes(self) -> int: ...

    @property
    def fetches_joined(self) -> int: ...

    @property
    def failures(self) -> int: ...

    @property
    def not_cached(self) -> int: ...

    @property
    def changed(self) -> int: ...

    @property
    def spilled(self) -> int: ...

    @property
    def no_room(self) -> int: ...

class TreeCounters:
    """What was asked of trees so far; `depth` may also fall."""

    @property
    def hits(self) -> int: ...

    @property
    def misses_file(self) -> int: ...

    @property
    def misses_listing(self) -> int: ...

    @property
    def misses_part(self) -> int: ...

    @property
    def joined(self) -> int: ...

    @property
    def not_cached(self) -> int: ...

    @property
    def bytes_up(self) -> int: ...

    @property
    def bytes_down(self) -> int: ...

    @property
    def hops(self) -> int: ...

    @property
    def hop_us(self) -> int: ...

    @property
    def depth(self) -> int: ...

    @property
    def failures(self) -> int: ...

    @property
    def read_files(self) -> int: ...

    @property
    def read_listings(self) -> int: ...

    @property
    def read_parts(self) -> int: ...

    @property
    def read_bytes(self) -> int: ...

def tombstone(key: bytes) -> bytes:
    """The notice that a key was dropped."""

def watermark(prefix: bytes, version: int) -> bytes:
    """The notice that all versions below one were dropped."""

class IndexedObject:
    """An object in an ObjectIndex. Immutable."""

    @property
    def key(self) -> bytes: ...

    @property
    def held(self) -> Held: ...

class ObjectIndex:
    """
    What one node knows of objects, without their bytes: the index of the store, for nodes
    that are simulated.
    """

    def __init__(self) -> None: ...

    def reserve(self, key: bytes, size: int) -> IndexedObject | None:
        """
        None: the key is the caller's, to publish or to abandon. Otherwise what is stored
        there, to be compared. Raises KeyExists or Busy.
        """

    def publish(self, key: bytes, size: int, crc: int, *, tier: Tier, copies: int, has_source: bool, least: int = 1) -> IndexedObject:
        """
        Store an object under a key that was reserved. Raises KeyExists if it was dropped
        meanwhile; it stays reserved then.
        """

    def abandon(self, key: bytes) -> None:
        """Give a key back that was reserved."""

    def raise_copies(self, object: IndexedObject, copies: int, least: int) -> IndexedObject | None:
        """
        The object, with at least `copies` wanted; None if it is no longer here.
        """

    def find(self, key: bytes) -> IndexedObject | None:
        """The object under a key."""

    def absent(self, key: bytes) -> NoReturn:
        """Raise why it is not here: Dropped, Damaged or NotFound."""

    def keys(self, prefix: bytes, limit: int) -> list[bytes]:
        """Keys of objects that begin so, in order."""

    def evict(self, object: IndexedObject) -> bool:
        """Exactly that object leaves; what has a source still counts."""

    def lose(self, object: IndexedObject) -> bool:
        """Exactly that object went bad."""

    def trim(self, key: bytes, size: int, crc: int) -> bool:
        """Remove exactly that object if we do not own it."""

    def move_aside(self, key: bytes, size: int, crc: int, aside: bytes) -> tuple[IndexedObject | None, IndexedObject | None]:
        """
        Keep exactly that object under another key: what it was, and what it is now; None if
        nothing was done, or if it was given up.
        """

    def learn(self, notice: bytes) -> tuple[bool, list[IndexedObject]]:
        """Whether it is new, and what it dropped."""

    def notice_digest(self) -> tuple[int, int]:
        """How many notices there are, and the xor of their hashes (xxh3_64)."""

    def notice_buckets(self) -> list[int]:
        """The same xor for each of 256 buckets, by the top byte of the hash."""

    def notices_in(self, buckets: Sequence[int]) -> list[bytes]:
        """All notices of some buckets."""

    def place(self, placement: Placement, number: int) -> None:
        """Where objects belong from now on, and which member we are."""

    def survey(self) -> dict[int, tuple[int, int]]:
        """
        For each co-owner: how many objects we hold that both of us own, and their digest.
        """

    def short(self) -> int:
        """How many objects we own first for which there are too few nodes."""

    def buckets_with(self, peer: int) -> list[int]:
        """
        The digest for one co-owner in 64 buckets, by the top 6 bits of xxh3_64.
        """

    def held_with(self, peer: int, buckets: Sequence[int]) -> list[Held]:
        """The objects in some buckets of one co-owner."""

    def strays(self, limit: int, after: bytes) -> list[Held]:
        """Objects that we hold and do not own, in the order of keys."""

    def held(self, key: bytes) -> Held | None:
        """What we hold under that key, or have evicted and still count."""

    def let_go(self, key: bytes, size: int, crc: int, tier: Tier, copies: int) -> None:
        """An object that has a source finds no room here: it counts as evicted."""

    def hold_through(self, key: bytes, size: int, crc: int, *, tier: Tier, copies: int, object: bytes, least: int = 1) -> bool:
        """
        A key that is not here counts as if it were, as long as that object is here.
        """

    def raise_through(self, key: bytes, size: int, crc: int, copies: int, least: int) -> None:
        """
        Want more copies of exactly that, if it is held through another object.
        """

    def missed(self, key: bytes) -> None:
        """
        Somebody asked for an object in vain: if it was evicted, it counts no more.
        """
