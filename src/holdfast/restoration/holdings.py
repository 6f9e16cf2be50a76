"""What restoring asks of a store: the core's, or a simulated one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Protocol

import msgspec

from .. import _core
from ..membership.owners import Owners
from ..placement.windows import LONGEST

#: The digest of what two members share is kept in this many parts, by the hash of the key.
BUCKETS = 64
#: Likewise of the notices.
NOTICE_BUCKETS = 256

#: With which the keys begin under which losers of a conflict are kept.
ASIDE = b"holdfast.conflict/"
#: As native/store/object.hpp has it.
_LONGEST = 4096

#: Any number that the core takes.
Number = Annotated[int, msgspec.Meta(ge=0)]
Key = Annotated[bytes, msgspec.Meta(min_length=1, max_length=4096)]
#: As native/store/notices.hpp has it; only a roster is so long.
Notice = Annotated[bytes, msgspec.Meta(min_length=1, max_length=1 + LONGEST)]
#: With which a notice begins that is a roster.
ROSTER = b"s"
#: How many, and the exclusive or of their hashes.
Digest = tuple[Number, Number]


class ObjectSummary(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """One object as one member holds it; its checksum is that of its bytes and its header."""

    key: Key
    size: Annotated[int, msgspec.Meta(ge=0, le=2**40)]
    crc32c: Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]
    tier: Annotated[int, msgspec.Meta(ge=0, le=1)]
    copies: Annotated[int, msgspec.Meta(ge=1, le=2**16 - 1)]
    #: Fewer nodes than that are too few for it.
    least: Annotated[int, msgspec.Meta(ge=0, le=2**16 - 1)] = 0


def held_of(held: _core.Held) -> ObjectSummary:
    """Return what the core holds as a plain struct that can travel."""
    return ObjectSummary(
        key=held.key,
        size=held.size,
        crc32c=held.crc32c,
        tier=held.tier.value,
        copies=held.copies,
        least=held.least,
    )


# One key, two versions: while the network was cut, both sides may have taken other bytes under one
# key. Whoever meets a version that wins moves its own aside and fetches the winner as anything else
# that it lacks. The contents decide, nothing else: all pairs decide alike, in whatever order they
# meet, whoever owns the key, and however many versions there are. Versions of equal size and
# checksum count as equal.


def version(held: ObjectSummary) -> tuple[int, int]:
    """Return what tells two versions of a key apart; the greater one wins."""
    return held.size, held.crc32c


def aside(held: ObjectSummary) -> bytes:
    """Return the key under which a version is kept that lost its own."""
    key = ASIDE + b"%d-%08x/" % version(held) + held.key
    if len(key) <= _LONGEST:
        return key
    end = b"#%016x" % _core.xxh3_64(held.key)
    return key[: _LONGEST - len(end)] + end


class Holdings(Protocol):
    """The objects of one member, seen under the owners that it was last given."""

    def place(self, owners: Owners) -> None:
        """See all objects under other owners."""
        ...

    def survey(self) -> dict[int, Digest]:
        """Digest, for every other member, the objects that we hold and that both of us own."""
        ...

    def buckets_with(self, peer: int) -> list[int]:
        """Return the parts of the digest that we share with `peer`."""
        ...

    def held_with(self, peer: int, buckets: Sequence[int]) -> list[ObjectSummary]:
        """List the objects in these parts."""
        ...

    def held(self, key: bytes) -> ObjectSummary | None:
        """Look for one object; what was evicted may still count."""
        ...

    def strays(self, limit: int, after: bytes) -> list[ObjectSummary]:
        """List objects that we hold and do not own, in the order of their keys."""
        ...

    def short(self) -> int:
        """Count the objects that we own first and for which too few nodes live."""
        ...

    def trim(self, key: bytes, size: int, crc32c: int) -> bool:
        """Remove a stray; tells whether it was still that object and still a stray."""
        ...

    def has_room(self, held: ObjectSummary) -> bool:
        """Tell whether an object would find room here at this moment."""
        ...

    def raise_copies(self, held: ObjectSummary, copies: int, least: int) -> None:
        """Want more copies of exactly that object, if it is here, or more nodes for it."""
        ...

    def move_aside(self, key: bytes, size: int, crc32c: int, aside: bytes) -> bool:
        """Keep an object under another key; tells whether it was still that object."""
        ...

    def keys(self, prefix: bytes, limit: int) -> list[bytes]:
        """List keys of objects that begin so, in order."""
        ...

    def notice_digest(self) -> Digest:
        """Digest the notices."""
        ...

    def notice_buckets(self) -> list[int]:
        """Return the parts of that digest."""
        ...

    def notices_in(self, buckets: Sequence[int]) -> list[bytes]:
        """List the notices in these parts."""
        ...

    def learn(self, notices: Sequence[bytes]) -> int:
        """Remember these, and remove what they say was dropped; tells how many were new."""
        ...
