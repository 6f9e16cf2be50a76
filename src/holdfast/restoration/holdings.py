"""What restoring asks of a store: the core's, or a simulated one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Protocol

import msgspec

#: The digest of what two members share is kept in this many parts, by the hash of the key.
BUCKETS = 64
#: Likewise of the keys that were dropped.
DROPPED_BUCKETS = 256

#: Any number that the core takes.
Number = Annotated[int, msgspec.Meta(ge=0)]
Key = Annotated[bytes, msgspec.Meta(min_length=1, max_length=4096)]
#: How many, and the exclusive or of their hashes.
Digest = tuple[Number, Number]


class Held(msgspec.Struct, frozen=True, array_like=True):
    """One object as one member holds it."""

    key: Key
    size: Annotated[int, msgspec.Meta(ge=0, le=2**40)]
    crc32c: Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]
    tier: Annotated[int, msgspec.Meta(ge=0, le=1)]
    copies: Annotated[int, msgspec.Meta(ge=1, le=2**16 - 1)]


class Holdings(Protocol):
    """The objects of one member, seen under the owners that it was last given."""

    def survey(self) -> dict[int, Digest]:
        """Digest, for every other member, the objects that we hold and that both of us own."""
        ...

    def buckets_with(self, peer: int) -> list[int]:
        """Return the parts of the digest that we share with `peer`."""
        ...

    def held_with(self, peer: int, buckets: Sequence[int]) -> list[Held]:
        """List the objects in these parts."""
        ...

    def held(self, key: bytes) -> Held | None:
        """Look for one object."""
        ...

    def strays(self, limit: int, after: bytes) -> list[Held]:
        """List objects that we hold and do not own, in the order of their keys."""
        ...

    def short(self) -> int:
        """Count the objects that we own first and that want more copies than nodes live."""
        ...

    def trim(self, key: bytes, size: int, crc32c: int) -> bool:
        """Remove a stray; tells whether it was still that object and still a stray."""
        ...

    def has_room(self, held: Held) -> bool:
        """Tell whether an object would find room here at this moment."""
        ...

    def move_aside(self, key: bytes, size: int, crc32c: int, aside: bytes) -> bool:
        """Keep an object under another key; tells whether it was still that object."""
        ...

    def keys(self, prefix: bytes, limit: int) -> list[bytes]:
        """List keys of objects that begin so, in order."""
        ...

    def dropped_digest(self) -> Digest:
        """Digest the keys that were dropped."""
        ...

    def dropped_buckets(self) -> list[int]:
        """Return the parts of that digest."""
        ...

    def dropped_in(self, buckets: Sequence[int]) -> list[bytes]:
        """List the dropped keys in these parts."""
        ...

    def bury(self, keys: Sequence[bytes]) -> int:
        """Remember these keys as dropped and remove their objects; tells how many were new."""
        ...
