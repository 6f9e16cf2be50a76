"""Puts what happens to an agent, and what its state machines decide, into its story."""

from __future__ import annotations

import time

from .. import _core
from ..client.events import Event, sentence
from ..membership import events as swim
from ..membership.view import Entry, Member, State, View
from ..session.processes import note
from .story import Story

#: Of more members that join at once, only the number and the first are told.
_JOIN_ONE_BY_ONE = 16
_FILE_PREFIX = _core.FILE_PREFIX.decode()


class Narrator:
    """Knows what each event means for a reader of the story."""

    def __init__(self, story: Story, me: Member) -> None:
        self._story = story
        self._me = me
        self._known = {me.number}
        self._moved = False  # the view has changed, and nothing was restored for that yet
        self._restoring: Event | None = None
        self._restored = (0, 0)
        self._postponed = False
        story.record("started", cause=f"process {me.pid}, {me.address}")

    def changed(self, entries: list[Entry], event: object, view: View) -> None:
        """Tell of what the view took in, and why."""
        cause = _cause(event, view)
        joined = []
        for entry in entries:
            node, number = entry.member.node, entry.member.number
            if entry.state is State.DEAD:
                self._story.record("died", member=node, cause=cause)
            elif entry.state is State.SUSPECT:
                self._story.record("suspected", member=node, cause=cause)
            elif number in self._known:
                self._story.record("refuted", member=node, cause=cause)
            else:
                joined.append(node)
            self._known.add(number)
        if len(joined) > _JOIN_ONE_BY_ONE:
            self._story.record("joined", cause=", ".join(joined), count=len(joined))
        else:
            for node in joined:
                self._story.record("joined", member=node, cause=cause)

    def placed(self, view: View) -> None:
        """Tell that objects belong elsewhere from now on."""
        names = ", ".join(member.node for member in view.live())
        _log(self._story.record("view", count=view.size, cause=names or "nobody"))
        self._moved = True

    def restores(self, lacking: int, restored: tuple[int, int]) -> None:
        """Tell when restoring begins after a change of view, and when it ends."""
        if self._restoring is None and lacking and self._moved:
            self._moved = False
            self._restored = restored
            self._restoring = self._story.record("restoring", count=lacking)
            _log(self._restoring)
        elif self._restoring is not None and not lacking:
            began, self._restoring = self._restoring, None
            copies, size = (now - then for now, then in zip(restored, self._restored, strict=True))
            event = self._story.record("restored", count=copies, cause=f"{size} bytes", since=began)
            _log(event)

    def waits(self, left: float) -> None:
        """Tell when restoring begins to wait for nodes that vanished at once."""
        if left and not self._postponed:
            _log(
                self._story.record(
                    "postponed",
                    seconds=left,
                    cause="many nodes vanished at once; they may come back",
                )
            )
        self._postponed = left > 0

    def ticked(self, late: float, most: float) -> None:
        """Tell of a tick that came so late that others may have taken us for dead."""
        if late > most:
            self._story.record(
                "stalled", seconds=late, cause="this agent's process was not running"
            )

    def failed(self, member: int, about: str, cause: str, view: View) -> None:
        """Tell that a member failed a program of this node, or this agent for one."""
        entry = view.get(member)
        node = entry.member.node if entry else str(member)
        self._story.record("failed", member=node, about=about, cause=cause)

    def incident(self, told: _core.IncidentEvent, view: View) -> None:
        """Tell what the core has met."""
        member = told.address and next(
            (
                one.node
                for one in (*view.live(), *view.lost())
                if told.address in (one.address, one.socket)
            ),
            told.address,
        )
        about = told.about
        if about.startswith(_FILE_PREFIX):
            about = about[len(_FILE_PREFIX) :].partition("\0")[0]
        cause = told.message
        if told.kind in ("waited", "refused"):
            cause = f"{told.code}: {told.message}" if told.code else "answered"
        self._story.record(
            told.kind,
            member=member,
            about=about,
            what=told.what,
            cause=cause,
            seconds=told.seconds,
            deadline=told.deadline,
            count=told.left_out,
            at=told.ended,
        )


_CAUSES: dict[type, str] = {
    swim.ProbeFailedEvent: "it answered no probe",
    swim.MemberDoubtEvent: "it failed a request",
    swim.MemberTickEvent: "it did not refute the suspicion",
    swim.ProbeAnsweredEvent: "the answer to a probe said so",
    swim.ProbeHeardEvent: "a probe said so",
    swim.ExchangedEvent: "a view that was exchanged said so",
    swim.LeaveEvent: "it was told to end",
}


def _cause(event: object, view: View) -> str:
    if isinstance(event, swim.ProbeHeardEvent) and (sender := view.get(event.sender)):
        return f"{sender.member.node} said so"
    return _CAUSES[type(event)]


def _log(event: Event) -> None:
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(event.time))
    note(f"{stamp} info {sentence(event)}")
