"""What happens to the machine of swim.py, and what it wants done."""

from __future__ import annotations

import msgspec

from .view import Entry, Member

# Events


class MemberTickEvent(msgspec.Struct, frozen=True, gc=False):
    """A period has passed; periods that were missed are not made up for."""


class ProbeAnsweredEvent(msgspec.Struct, frozen=True, gc=False):
    """The probe with this ticket was answered."""

    ticket: int
    entries: list[Entry]  # the news in the answer
    identity: int  # of the view of whom was probed
    age: float  # seconds since the Python loop of whom was probed last went round


class ProbeFailedEvent(msgspec.Struct, frozen=True, gc=False):
    """The probe with this ticket was refused, or nobody answered within its deadline."""

    ticket: int


class ProbeHeardEvent(msgspec.Struct, frozen=True, gc=False):
    """A probe came in that brought news, or whose sender has another view."""

    entries: list[Entry]
    identity: int  # of the sender's view
    sender: int  # its number


class ExchangedEvent(msgspec.Struct, frozen=True, gc=False):
    """A whole view came in: the answer to our sync, somebody else's, a launcher's list."""

    entries: list[Entry]


class MemberDoubtEvent(msgspec.Struct, frozen=True, gc=False):
    """Somebody who wanted data from this member failed to get it."""

    number: int


class LeaveEvent(msgspec.Struct, frozen=True, gc=False):
    """We are about to end; nothing that comes later matters."""


MembershipEvent = (
    MemberTickEvent
    | ProbeAnsweredEvent
    | ProbeFailedEvent
    | ProbeHeardEvent
    | ExchangedEvent
    | MemberDoubtEvent
    | LeaveEvent
)

# Instructions


class ProbeInstruction(msgspec.Struct, frozen=True, gc=False):
    """Ask `target` whether it lives, and tell it `news`."""

    ticket: int  # comes back in ProbeAnsweredEvent or ProbeFailedEvent; 0: only the news matters
    target: Member
    via: Member | None  # who shall ask in our place
    news: list[Entry]  # not to be changed: it may be sent to many
    deadline: float  # seconds


class SyncInstruction(msgspec.Struct, frozen=True, gc=False):
    """Exchange whole views with `target`; a failure does not matter."""

    target: Member


class ViewInstruction(msgspec.Struct, frozen=True, gc=False):
    """The view took these entries in."""

    entries: list[Entry]


MembershipInstruction = ProbeInstruction | SyncInstruction | ViewInstruction
