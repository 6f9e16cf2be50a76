"""What members say to one another about their objects.

Every request about owners bears the sender's view, by its identity. A receiver with another view
answers `OtherView` and nothing else happens: both merge views first (rule 4 of the design).
"""

from __future__ import annotations

import msgspec

from .holdings import Digest, Held


class Compare(msgspec.Struct, frozen=True, tag=True):
    """Ask whether the other holds the same of what both own."""

    identity: int
    sender: int
    digest: Digest


class Compared(msgspec.Struct, frozen=True, tag=True):
    """The answer: nothing if it is the same, else the parts of our digest."""

    buckets: list[int] = []


class Exchange(msgspec.Struct, frozen=True, tag=True):
    """List all that the sender holds in these parts; the other takes what it lacks."""

    identity: int
    sender: int
    buckets: list[int]
    held: list[Held]


class Exchanged(msgspec.Struct, frozen=True, tag=True):
    """The answer: what the sender lacks itself."""

    held: list[Held] = []


class Confirm(msgspec.Struct, frozen=True, tag=True):
    """List what the sender holds and the other owns; it takes what it lacks."""

    identity: int
    sender: int
    held: list[Held]


class Confirmed(msgspec.Struct, frozen=True, tag=True):
    """The answer: those that the owner has, too."""

    keys: list[bytes] = []


class CompareDropped(msgspec.Struct, frozen=True, tag=True):
    """Ask whether the other has heard of the same drops."""

    digest: Digest


class ComparedDropped(msgspec.Struct, frozen=True, tag=True):
    """The answer: nothing if so, else the parts of our digest."""

    buckets: list[int] = []


class ExchangeDropped(msgspec.Struct, frozen=True, tag=True):
    """List all dropped keys that the sender knows in these parts."""

    buckets: list[int]
    keys: list[bytes]


class ExchangedDropped(msgspec.Struct, frozen=True, tag=True):
    """The answer: those that the sender did not name."""

    keys: list[bytes] = []


class OtherView(msgspec.Struct, frozen=True, tag=True):
    """The answer to a request that bears another view than ours."""

    identity: int


Request = Compare | Exchange | Confirm | CompareDropped | ExchangeDropped
Reply = Compared | Exchanged | Confirmed | ComparedDropped | ExchangedDropped | OtherView
