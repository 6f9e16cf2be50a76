"""What members say to one another about their objects.

Every request about owners bears the sender's view, by its identity. A receiver with another view
answers `OtherView` and nothing else happens: both merge views first (rule 4).
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from .holdings import BUCKETS, NOTICE_BUCKETS, Digest, Key, Notice, Number, ObjectSummary
from .portions import PortionBounds

_Part = Annotated[int, msgspec.Meta(ge=0, lt=BUCKETS)]
_NoticePart = Annotated[int, msgspec.Meta(ge=0, lt=NOTICE_BUCKETS)]
# Of all parts, in their order.
_Digests = Annotated[list[Number], msgspec.Meta(max_length=BUCKETS)]
_NoticeDigests = Annotated[list[Number], msgspec.Meta(max_length=NOTICE_BUCKETS)]


class Compare(msgspec.Struct, frozen=True, tag=True):
    """Ask whether the other holds the same of what both own."""

    identity: Number
    sender: Number
    digest: Digest


class Compared(msgspec.Struct, frozen=True, tag=True):
    """The answer: nothing if it is the same, else the parts of our digest, and of how many."""

    buckets: _Digests = []
    count: Number = 0


class Exchange(msgspec.Struct, frozen=True, tag=True):
    """List all that the sender holds in these parts and bounds; the other takes what it lacks."""

    identity: Number
    sender: Number
    buckets: list[_Part]
    held: list[ObjectSummary]
    bounds: PortionBounds = PortionBounds()


class Exchanged(msgspec.Struct, frozen=True, tag=True):
    """The answer: what the sender lacks itself, and other versions of what it has."""

    held: list[ObjectSummary] = []


class Confirm(msgspec.Struct, frozen=True, tag=True):
    """List what the sender holds and the other owns; it takes what it lacks."""

    identity: Number
    sender: Number
    held: list[ObjectSummary]


class Confirmed(msgspec.Struct, frozen=True, tag=True):
    """The answer: those that the owner has, too, and those of which it has another version."""

    keys: list[Key] = []
    other: list[ObjectSummary] = []


class CompareNotices(msgspec.Struct, frozen=True, tag=True):
    """Ask whether the other has heard of the same notices."""

    digest: Digest


class ComparedNotices(msgspec.Struct, frozen=True, tag=True):
    """The answer: nothing if so, else the parts of our digest, and of how many."""

    buckets: _NoticeDigests = []
    count: Number = 0


class ExchangeNotices(msgspec.Struct, frozen=True, tag=True):
    """List all notices that the sender knows in these parts and bounds."""

    buckets: list[_NoticePart]
    notices: list[Notice]
    bounds: PortionBounds = PortionBounds()


class ExchangedNotices(msgspec.Struct, frozen=True, tag=True):
    """The answer: those that the sender did not name."""

    notices: list[Notice] = []


class OtherView(msgspec.Struct, frozen=True, tag=True):
    """The answer to a request that bears another view than ours."""

    identity: Number


Request = Compare | Exchange | Confirm | CompareNotices | ExchangeNotices
Reply = Compared | Exchanged | Confirmed | ComparedNotices | ExchangedNotices | OtherView
