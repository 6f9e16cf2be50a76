"""What clients and agents say to each other about objects in a simulated cluster."""

from __future__ import annotations

import msgspec

from ..errors import HoldfastError
from ..membership.view import Entry
from ..restoration.holdings import ObjectSummary
from ..restoration.messages import Request
from .members import ProbeMessage

# Requests


class MemberProbe(ProbeMessage, frozen=True):
    """Asks whether a certain member lives: another may have been started at its address."""

    wanted: int


class PutMessage(msgspec.Struct, frozen=True, kw_only=True):
    """Store an object here and at the members after us."""

    key: bytes
    content: bytes
    header: bytes
    size: int
    tier: int
    owners: list[int]
    up_to: int  # copies are wanted, where there may be too few members; 0: as many as owners
    onward: list[str]  # addresses
    deadline: float  # of the sender
    without: list[int] = []  # owners that failed, in whose place others stand


class GetMessage(msgspec.Struct, frozen=True):
    """Send an object; `wanted` is who is asked, 0 any member that lives there."""

    key: bytes
    wanted: int = 0


class ReadMessage(msgspec.Struct, frozen=True):
    """Send a file, read it from the shared file system first if need be."""

    name: bytes
    size: int
    copies: int
    stands_in: bool  # for an owner that failed


class RefreshMessage(msgspec.Struct, frozen=True):
    """A file may have changed: look at it again."""

    name: bytes


class VerifyMessage(msgspec.Struct, frozen=True):
    """Read a copy again."""

    key: bytes


class DropMessage(msgspec.Struct, frozen=True):
    """Drop an object for ever."""

    key: bytes
    owners: list[int]
    copies: int


class GetViewMessage(msgspec.Struct, frozen=True):
    """Send the view."""


class JoinMessage(msgspec.Struct, frozen=True):
    """Take this view in, and send the merged one."""

    entries: list[Entry]


class DoubtMessage(msgspec.Struct, frozen=True):
    """A member failed the sender."""

    number: int


class DropBelowMessage(msgspec.Struct, frozen=True):
    """Drop all versions below one."""

    prefix: bytes
    version: int


class RestoreMessage(msgspec.Struct, frozen=True):
    """Answer another member's restoring."""

    request: Request


# Replies


class Done(msgspec.Struct, frozen=True):
    """What was asked for is done."""


class FoundReply(msgspec.Struct, frozen=True):
    """An object."""

    held: ObjectSummary
    content: bytes
    has_source: bool = False
    header: bytes = b""


class Gone(msgspec.Struct, frozen=True):
    """The answer to a probe of a member that is no longer there."""


class AgedAnswer(msgspec.Struct, frozen=True):
    """The answer to a probe."""

    identity: int
    news: list[Entry]
    age: float  # of the Python loop


class Refusal(msgspec.Struct, frozen=True):
    """An error, and the address where it happened."""

    error: HoldfastError
    at: str


DONE = Done()
