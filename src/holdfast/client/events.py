"""What agents remember: one event, and how it is shown."""

from __future__ import annotations

import time
from typing import Literal

import msgspec

from ..units import format_time

Kind = Literal[
    "started",
    "joined",
    "suspected",
    "refuted",
    "died",
    "view",
    "restoring",
    "restored",
    "postponed",
    "stalled",
    "failed",
    "waited",
    "refused",
    "damaged",
    "condemned",
]


class Event(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One event as `holdfast events --json` prints it; docs/reference/events.md has the kinds."""

    time: float  # seconds since the epoch, by the clock of its host
    boot: float  # seconds since its host was started
    node: str  # who tells it
    kind: Kind
    member: str = ""  # the other node that it is about
    about: str = ""  # the key of an object, or the path of a file
    what: str = ""  # was asked for, or the tier
    cause: str = ""
    seconds: float = 0.0  # that it took
    deadline: float = 0.0  # of the request, in seconds
    count: int = 0  # of members, of copies, or of earlier events of its kind that were omitted

    @property
    def names(self) -> set[str]:
        """By which it is found: nodes, and a key or a path."""
        return {self.node, self.member, self.about}


def line(event: Event) -> str:
    """Write an event for people, in local time."""
    seconds, milliseconds = divmod(round(event.time * 1000), 1000)
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))
    return f"{when}.{milliseconds:03d}  {event.node}  {sentence(event)}"


_SENTENCES: dict[Kind, str] = {
    "started": "started",
    "joined": "{member} joined",
    "suspected": "{member} suspected",
    "refuted": "{member} refuted",
    "died": "{member} died",
    "view": "view of {nodes}",
    "restoring": "restoring {copies}",
    "restored": "restored {copies} in {took}",
    "postponed": "restoring postponed for {took}",
    "stalled": "stalled for {took}",
    "failed": "{member} failed {about}",
    "waited": "{what} {about} waited{whom} {took} of {deadline}",
    "refused": "refused {what} {about}",
    "damaged": "damaged {about} in the {what} tier",
    "condemned": "condemned the {what} tier",
}


def sentence(event: Event) -> str:
    """Say what happened, but not when and where."""
    nodes = _number(event.count, "node", "nodes")
    text = _SENTENCES[event.kind].format(
        member=event.member or nodes,
        nodes=nodes,
        copies=_number(event.count, "copy", "copies"),
        whom=event.member and f" for {event.member}",
        about=repr(event.about) if event.about else "a request",
        what=event.what,
        took=format_time(event.seconds),
        deadline=format_time(event.deadline),
    )
    if event.cause:
        text += f": {event.cause}"
    if event.count and event.kind in ("waited", "refused", "damaged"):
        text += f" ({event.count} earlier ones omitted)"
    return text


def _number(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"
