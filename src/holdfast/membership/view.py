"""A view: who belongs to a session, as far as an agent or a client knows.

A view is a merge, not a sequence: of two entries for the same member the greater one wins, so all
who have heard the same things hold the same view, in whatever order they heard them.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from typing import Annotated

import msgspec

from .._core import xxh3_64
from ..errors import BadInput
from ..units import plural

#: What a member is for. Spares own nothing; staging nodes own what compute nodes do.
COMPUTE, STAGING, SPARE = "compute", "staging", "spare"
#: What reading a message raises that somebody else has written wrong.
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

# News of several members must fit into a probe.
_Text = Annotated[str, msgspec.Meta(max_length=255)]
_Number = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class State(IntEnum):
    """What is believed of a member; the greater of two beliefs wins."""

    ALIVE = 0
    SUSPECT = 1
    DEAD = 2


class Member(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One life of one node's agent; a restart is a new member."""

    node: Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
    number: _Number  # drawn at random at the start
    started: _Number  # nanoseconds since the epoch
    address: _Text  # for other nodes
    socket: _Text  # for processes on its host
    pid: int
    role: _Text = COMPUTE
    host: _Text = ""
    rack: _Text = ""


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """What is known of a member; the greater (incarnation, state) wins."""

    member: Member
    incarnation: _Number  # only the member itself raises it
    state: State


class MembershipStatus(msgspec.Struct, frozen=True):
    """What an agent tells of its membership: what it believes of the others."""

    identity: int  # of its view: equal views, equal owners
    members: dict[str, int]  # of its view: how many are alive, suspect, or lost
    incarnation: int
    detection: float  # how long a death goes unnoticed as a rule, in seconds


def assign_roles(nodes: Sequence[str], staging: int, spares: int) -> dict[str, str]:
    """Return the roles of the last nodes: the spares, and before them the staging nodes.

    All others are compute nodes. It is decided once, when a session starts, and kept by names:
    nodes that come later, or are started again, must not change what the others are.
    """
    count = len(nodes)
    there = f"the session has {plural(count, 'node', 'nodes')}"
    if staging + spares > count:
        raise BadInput(
            f"{there}, too few for {plural(staging, 'staging node', 'staging nodes')} and "
            f"{plural(spares, 'spare', 'spares')}; ask for fewer, or start more nodes"
        )
    if spares == count:
        raise BadInput(
            f"{there}; with {plural(spares, 'spare', 'spares')} no node would be left to store "
            "objects; ask for fewer spares, or start more nodes"
        )
    first_spare = count - spares
    first_staging = first_spare - staging
    return {
        **dict.fromkeys(nodes[first_staging:first_spare], STAGING),
        **dict.fromkeys(nodes[first_spare:], SPARE),
    }


def gives_way_to(later: Member) -> str:
    """Say why an agent ends of whose node another one is known."""
    clock = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(later.started / 1e9))
    return f"a newer agent for {later.node} started at {clock} (by its clock)"


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(list[Entry])


def encode(entries: list[Entry]) -> bytes:
    """Write entries as a message."""
    return _encoder.encode(entries)


def read(message: bytes) -> list[Entry]:
    """Read entries from a message; raise something of `UNREADABLE` if it has none."""
    return _decoder.decode(message)


def decode(message: bytes) -> list[Entry]:
    """Read entries from a message."""
    try:
        return read(message)
    except UNREADABLE as error:
        raise BadInput(
            f"cannot decode the message as a list of members ({error}); the sender may "
            "run another version of Holdfast"
        ) from None


class View:
    """The merge of all entries heard.

    Of several members of one node only the latest to start counts: whoever restarts has ended its
    earlier life, known to be dead or not.

    A view may stand on a `base` that nobody changes any more and keeps only what differs from it:
    ten thousand simulated views share their beginning.
    """

    def __init__(self, entries: Iterable[Entry] = (), base: View | None = None) -> None:
        self._base = base
        self._entries: dict[int, Entry] = {}
        self._latest: dict[str, Member] = {}  # by node
        self._gone: set[int] = set(base._gone) if base else set()  # numbers of those lost
        self._live: list[Member] | None = base.live() if base else None
        #: How many members live.
        self.size: int = base.size if base else 0
        #: A hash of the live members: equal for views that agree on them. It is the exclusive or
        #: of their hashes, so that a change costs the same in any cluster.
        self.identity: int = base.identity if base else 0
        self.merge(entries)

    def merge(self, entries: Iterable[Entry]) -> list[Entry]:
        """Take in `entries` and return those that were news."""
        return [entry for entry in entries if self._take(entry)]

    def unlike(self, entries: Iterable[Entry]) -> list[Entry]:
        """Return those of `entries` that are more or less than is known; most news is neither."""
        held = self._entries
        found = []
        for entry in entries:
            known = held.get(entry.member.number)
            if known is not entry and (
                known is None
                or known.state is not entry.state
                or known.incarnation != entry.incarnation
            ):
                found.append(entry)
        return found

    def get(self, number: int) -> Entry | None:
        """Return what is known of member `number`."""
        entry = self._entries.get(number)
        if entry is None and self._base:
            return self._base.get(number)
        return entry

    def entries(self) -> list[Entry]:
        """Return what is known of every member, dead ones too."""
        return list(self._all())

    def changes(self) -> list[Entry]:
        """Return what is known beyond the base."""
        return list(self._entries.values())

    def live(self) -> list[Member]:
        """Return the members that are alive or suspect, by node; do not change the list."""
        if self._live is None:
            gone = self._gone
            live = (e.member for e in self._all() if e.member.number not in gone)
            self._live = sorted(live, key=lambda member: member.node)
        return self._live

    def owners_pool(self) -> list[Member]:
        """Return the live members that may own objects: all but spares."""
        return [member for member in self.live() if member.role != SPARE]

    def lost(self) -> list[Member]:
        """Return the members that died or gave way to a later one of their node."""
        lost = (entry.member for entry in map(self.get, self._gone) if entry)
        return sorted(lost, key=lambda m: (m.node, m.started, m.number))

    def states(self) -> dict[str, int]:
        """Count the members that are alive, suspect, or lost."""
        suspects = sum(self.is_live(e.member) for e in self._all() if e.state is State.SUSPECT)
        return {"alive": self.size - suspects, "suspect": suspects, "lost": len(self._gone)}

    def node(self, name: str) -> Member | None:
        """Return the live member of node `name`."""
        member = self.latest(name)
        return member if member and member.number not in self._gone else None

    def latest(self, name: str) -> Member | None:
        """Return the latest member of node `name` that is known of, dead or alive."""
        member = self._latest.get(name)
        if member is None and self._base:
            return self._base.latest(name)
        return member

    def later(self, member: Member) -> Member | None:
        """Return the member of the same node that started later, so that `member` is lost."""
        latest = self.latest(member.node)
        return latest if latest is not None and latest.number != member.number else None

    def is_live(self, member: Member) -> bool:
        """Whether `member` is alive or suspect, and the latest of its node."""
        number = member.number
        return number not in self._gone and self.get(number) is not None

    def is_lost(self, number: int) -> bool:
        """Whether member `number` died or gave way to a later one of its node."""
        return number in self._gone

    def encode(self) -> bytes:
        """Write the whole view as a message."""
        return encode(self.entries())

    @classmethod
    def decode(cls, message: bytes) -> View:
        """Read a view from a message."""
        return cls(decode(message))

    def _take(self, entry: Entry) -> bool:
        member = entry.member
        old = self.get(member.number)
        if old and (entry.incarnation, entry.state) <= (old.incarnation, old.state):
            return False
        before = self.node(member.node)
        self._entries[member.number] = entry
        self._place(member, entry.state)
        after = self.node(member.node)
        if before is not after:
            for changed in filter(None, (before, after)):
                self.identity ^= xxh3_64(changed.number.to_bytes(8, "little"))
            self.size += (after is not None) - (before is not None)
            self._live = None
        return True

    def _place(self, member: Member, state: State) -> None:
        """Count `member` among the live or the lost of its node."""
        latest = self.latest(member.node)
        if latest is None or (member.started, member.number) > (latest.started, latest.number):
            if latest is not None:
                self._gone.add(latest.number)
            self._latest[member.node] = latest = member
        if state is State.DEAD or latest.number != member.number:
            self._gone.add(member.number)
        else:
            self._gone.discard(member.number)

    def _all(self) -> Iterator[Entry]:
        if self._base:
            for entry in self._base._all():
                yield self._entries.get(entry.member.number, entry)
            known = self._base
            yield from (e for n, e in self._entries.items() if known.get(n) is None)
        else:
            yield from self._entries.values()
