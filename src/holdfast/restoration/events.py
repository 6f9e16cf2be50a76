"""What happens to the machine of restorer.py, and what it wants done."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import msgspec

from ..membership.owners import Owners
from ..membership.view import Member
from ..placement.windows import Roster
from .holdings import ObjectSummary
from .messages import Reply, Request


class ViewEvent(msgspec.Struct, frozen=True):
    """The view has changed; `live` and `lost` are all its members, spares too."""

    owners: Owners
    live: Sequence[Member]
    lost: Sequence[Member]


class RostersEvent(msgspec.Struct, frozen=True):
    """A client knows these; every member is to know them."""

    rosters: Sequence[Roster]


class RestorationTickEvent(msgspec.Struct, frozen=True):
    """A period has passed."""


class AskedEvent(msgspec.Struct, frozen=True):
    """`answer` was called; another member may have told us what we lack."""


class RequestRepliedEvent(msgspec.Struct, frozen=True):
    """The answer to an `AskInstruction`."""

    ticket: int
    reply: Reply


class RestoredEvent(msgspec.Struct, frozen=True):
    """A `RestoreInstruction` has stored its object."""

    ticket: int
    size: int


class RequestFailedEvent(msgspec.Struct, frozen=True):
    """A request failed, or what was to bring an object back.

    `gone` if the source has no such object any more.
    """

    ticket: int
    gone: bool = False


RestorationEvent = (
    ViewEvent
    | RostersEvent
    | RestorationTickEvent
    | AskedEvent
    | RequestRepliedEvent
    | RestoredEvent
    | RequestFailedEvent
)

# Instructions


class AskInstruction(msgspec.Struct, frozen=True):
    """Send a request; the answer comes back as `RequestRepliedEvent` or `RequestFailedEvent`."""

    ticket: int
    member: Member
    request: Request


class MergeInstruction(msgspec.Struct, frozen=True):
    """A member has another view; exchange them."""

    member: Member


class RestoreInstruction(msgspec.Struct, frozen=True):
    """Bring an object back that `source` knows of.

    It ends as a `RestoredEvent` or a `RequestFailedEvent`.
    """

    ticket: int
    held: ObjectSummary
    source: Member


class PullInstruction(RestoreInstruction, frozen=True):
    """Copy it from there."""


RestorationInstruction = AskInstruction | MergeInstruction | RestoreInstruction


@runtime_checkable
class RestoringKeySpace(Protocol):
    """A key space whose objects come back otherwise than by a `PullInstruction`."""

    def restoring(self, ticket: int, held: ObjectSummary, source: Member) -> RestoreInstruction:
        """Say how an object comes back that we lack."""
        ...
