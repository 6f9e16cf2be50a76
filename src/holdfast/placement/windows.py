"""Windows of a roster, spelled out; `holdfast._core.WindowTable` is the same at full speed.

A *roster* is a list of nodes that never changes. A key names one, and a place in it:

    @space/ROSTER/VARIABLE/K+M/START.UNIT/CELL

K units make a *stripe*. Its *window* is K + M slots of the roster from START on, around its end
if need be: unit U stands on slot START + U, and copies of every unit on the M slots behind those of
the units. Who lives on a slot's node owns what stands there. A node that is dead or is in the list
already is stood in for by another, which differs from stripe to stripe, so that what one node held
moves to many; all else stays, and when the node is back, so is what it held.

What follows the first zero byte of a key does not count: versions of one thing live together.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from typing import Annotated, Literal, NamedTuple

import msgspec

from .._core import xxh3_64
from ..errors import BadInput

#: With which all keys begin that name a roster; those of names lie on the ring all the same.
PREFIX = b"@space/"
NAMES = PREFIX + b"names/"
#: A roster travels as one notice; native/store/notices.hpp has the same limit.
LONGEST = 256 << 10
#: Of an object, as native/placement/ring.hpp has it.
_MOST_COPIES = 16
#: Their role, as membership/view.py has it.
_SPARE, _STAGING = "spare", "staging"

_NUMBER = rb"(0|[1-9][0-9]{0,8})"
_UNIT = re.compile(
    rb"(@space/([0-9a-f]{8})/[^/]+/" + _NUMBER + rb"\+" + _NUMBER + rb"/" + _NUMBER + rb"\.)"
    # The unit; the cell, whatever it is, follows.
    + _NUMBER + rb"/"
)  # fmt: skip

_Text = Annotated[str, msgspec.Meta(max_length=255)]


class Roster(msgspec.Struct, frozen=True, array_like=True):
    """The nodes of a space, in an order in which neighbours differ in rack, and then in host."""

    nodes: tuple[Annotated[str, msgspec.Meta(min_length=1, max_length=255)], ...]
    hosts: tuple[_Text, ...]  # of the same
    racks: tuple[_Text, ...]  # of the same
    #: Which members stand in for others: those with that role; of compute, all but spares.
    role: Literal["compute", "staging"]

    def __post_init__(self) -> None:
        if not self.nodes:
            raise ValueError("a roster needs a node")
        if len(set(self.nodes)) != len(self.nodes):
            raise ValueError("a node is named twice in a roster")
        if not len(self.nodes) == len(self.hosts) == len(self.racks):
            raise ValueError("a roster has a host and a rack for each of its nodes")

    def encode(self) -> bytes:
        """Write it as it travels."""
        return msgspec.msgpack.encode(self)

    @classmethod
    def decode(cls, text: bytes) -> Roster:
        """Read what `encode` has written, and nothing else: its hash is its name."""
        try:
            roster = msgspec.msgpack.decode(text, type=cls)
            if len(text) <= LONGEST and roster.encode() == text:
                return roster
            error: Exception | str = "it was not written as rosters are"
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as decoding:
            error = decoding
        raise BadInput(
            f"cannot decode a roster ({error}); the sender may run another version of Holdfast"
        )

    @property
    def id(self) -> str:
        """By which keys name it."""
        return f"{xxh3_64(self.encode()) >> 32:08x}"


class Standing(NamedTuple):
    """A member that lives, as far as it matters here."""

    number: int
    node: str
    host: str  # empty: one of its own
    rack: str
    role: str


class Unit(msgspec.Struct, frozen=True, kw_only=True):
    """What a key says of its place."""

    stripe: bytes  # up to the unit
    roster: str
    units: int  # of the stripe
    survive: int
    start: int
    unit: int


def unit_of(key: bytes) -> Unit | None:
    """Read a key; None: it names no place."""
    found = _UNIT.match(key.split(b"\0", 1)[0])
    if found is None:
        return None
    stripe, roster, *numbers = found.groups()
    units, survive, start, number = map(int, numbers)
    unit = Unit(
        stripe=stripe,
        roster=roster.decode(),
        units=units,
        survive=survive,
        start=start,
        unit=number,
    )
    return unit if unit.unit < unit.units and unit.survive < _MOST_COPIES else None


def in_windows(key: bytes) -> bool:
    """Whether a key lies in a window, known or not, and so not on the ring."""
    return key.startswith(PREFIX) and not key.startswith(NAMES)


class WindowTable:
    """The windows of all `rosters` over the `members` that live, spares too. Immutable."""

    def __init__(self, rosters: Iterable[Roster], members: Iterable[Standing]) -> None:
        self._rosters = {roster.id: roster for roster in rosters}
        self._members = sorted(members, key=lambda member: member.node)

    def owners(self, key: bytes, count: int = 1, without: Collection[int] = ()) -> list[int]:
        """Return the first `count` owners, by number, as if those `without` were dead."""
        unit = unit_of(key)
        roster = self._rosters.get(unit.roster) if unit else None
        if unit is None or roster is None or unit.start >= len(roster.nodes):
            return []
        members = [member for member in self._members if member.number not in without]
        on_node = {member.node: member for member in members}
        behind = unit.start + unit.units
        places = [unit.start + unit.unit, *range(behind, behind + unit.survive)]
        slots = [place % len(roster.nodes) for place in places]
        found: list[Standing | None] = []
        for slot in slots:
            member = on_node.get(roster.nodes[slot])
            found.append(None if member in found else member)
        for at, slot in enumerate(slots):
            if found[at] is None:
                taken = [member for member in found if member is not None]
                found[at] = _stand_in(roster, unit, slot, taken, members)
        return [member.number for member in found if member is not None][:count]


def _stand_in(
    roster: Roster, unit: Unit, slot: int, taken: Sequence[Standing], members: Sequence[Standing]
) -> Standing | None:
    """Choose who stands on a slot whose own node cannot; `members` are sorted by node."""
    size = len(roster.nodes)
    window = {
        roster.nodes[(unit.start + i) % size] for i in range(min(unit.units + unit.survive, size))
    }
    hosts, racks = {_host(member) for member in taken}, {member.rack for member in taken}
    seed = xxh3_64(unit.stripe, slot)

    def rank(member: Standing) -> tuple[int, bool, bool, int]:
        group = 0 if member.role == _SPARE else 1 + (member.node in window)
        hashed = xxh3_64(member.node.encode(), seed)
        return group, _host(member) in hosts, member.rack in racks, -hashed

    able = (member for member in members if member not in taken and _may_stand_in(roster, member))
    return min(able, key=rank, default=None)


def _may_stand_in(roster: Roster, member: Standing) -> bool:
    return member.role == _SPARE or roster.role != _STAGING or member.role == _STAGING


def _host(member: Standing) -> str:
    return member.host or member.node
