"""Membership and restoring of an agent: the state machines, and the core that does as they say.

Nothing here waits: answers come back as events of the core.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

import msgspec

from .. import _core
from ..config import Config
from ..errors import BadInput
from ..membership import events as swim
from ..membership.owners import Owners
from ..membership.swim import LONGEST_SLEEP, Swim
from ..membership.view import Entry, Member, View, decode, encode
from ..restoring import restorer as restoring
from ..restoring.asking import Ask, MergeViews
from ..restoring.messages import Reply, Request
from ..restoring.restorer import Pull, Restorer, RestoreStatus
from .holdings import CoreHoldings

_REQUEST = msgspec.msgpack.Decoder(Request)
_REPLY = msgspec.msgpack.Decoder(Reply)
_encode = msgspec.msgpack.encode
#: Deaths within so many periods count as one event.
_AT_ONCE = 10
#: Errors of a pull whose object is not to be had any more.
_GONE = ("NotFound", "Dropped")
_TIERS = {tier.value: tier for tier in (_core.Tier.MEMORY, _core.Tier.DISK)}


class Members:
    """Membership and restoring of one agent; also the service `restoring`."""

    name = "restoring"

    def __init__(self, core: _core.Agent, me: Member, settings: Config) -> None:
        self.me = me
        self.changes = 0  # of the view; clients ask again only when it has grown
        self.joined = False
        self._core = core
        self.settings = settings
        self._rng = random.Random(me.number)
        self._swim = Swim(me, View(), settings.probe_period)
        self._restorer = Restorer(
            me.number,
            CoreHoldings(core),
            settings.restore_rate,
            settings.partition_wait,
            _AT_ONCE * settings.probe_period,
        )
        self._identity = 0
        self.incarnation = 0
        self._news: list[Entry] = []  # that answers to probes carry
        self._next_ticket = 0
        self._ticks = 0
        self._waiting: dict[int, Callable[[str, tuple[Any, ...]], None]] = {}
        # Not all at the same moment, although they were all started at once.
        self._next_tick = time.monotonic() + self._rng.random() * settings.probe_period
        core.set_files(
            settings.file_strikes,
            settings.avoid,
            settings.file_deadline,
            settings.deadline,
        )
        core.set_tree(
            settings.tree_degree,
            settings.tree_largest,
            _core.Tier.MEMORY if settings.tree_tier == "memory" else _core.Tier.DISK,
            settings.tree_ttl,
            settings.file_strikes,
            settings.avoid,
            settings.file_deadline,
            settings.deadline,
        )
        core.set_self(me.number)
        self._place()

    @property
    def view(self) -> View:
        """The members as we know them."""
        return self._swim.view

    # ---- what happens ---------------------------------------------------------------------

    def until_tick(self) -> float:
        """Return the seconds until `tick` is to be called."""
        return max(0.0, self._next_tick - time.monotonic())

    def tick(self) -> None:
        """Do what is done once a period."""
        now = time.monotonic()
        period = self.settings.probe_period
        if now - self._next_tick > LONGEST_SLEEP * period:
            self._core.distrust_files()  # we were stopped, and nobody could tell us of changes
        self._next_tick = now + period
        self._core.beat()
        self._membership(swim.Tick(), now)
        self._ticks += 1
        if self._restorer.busy or self._ticks % restoring.RESTING == 0:
            self._restoring(restoring.Tick(), now)

    def take_events(self) -> None:
        """Take all that the core has to tell."""
        while (event := self._core.next_event()) is not None:
            if event[0] == "heard":
                _, identity, sender, news = event
                entries = decode(news) if news else []
                self._membership(swim.Heard(entries, identity, sender), time.monotonic())
            elif event[0] == "doubted":
                self.doubt(event[1])
            else:
                self._waiting.pop(event[1])(event[0], event[2:])

    def join(self, entries: list[Entry]) -> None:
        """Merge what a launcher, a client or another member knows."""
        self.joined = True
        self._membership(swim.Exchanged(entries), time.monotonic())

    def doubt(self, member: int) -> None:
        """Suspect a member that failed a client of ours, or our core for one."""
        self._membership(swim.Doubt(member), time.monotonic())

    def leave(self) -> None:
        """Say that we go, so that nobody has to find out."""
        self._membership(swim.Leave(), time.monotonic())

    def superseded(self) -> bool:
        """Whether our node has a later agent, so that nobody counts us any more."""
        latest = self.view.latest(self.me.node)
        return latest is not None and latest.number != self.me.number

    def talks(self) -> bool:
        """Whether requests of ours are under way."""
        return bool(self._waiting)

    def handle(self, method: str, message: bytes) -> bytes:
        """Answer another member's restoring."""
        if method != "ask":
            raise BadInput(f"restoring has no method {method!r}")
        reply = _encode(self._restorer.answer(_REQUEST.decode(message)))
        self._restoring(restoring.Asked(), time.monotonic())
        return reply

    def restore_status(self) -> RestoreStatus:
        """Tell how far restoring is."""
        return self._restorer.status(time.monotonic())

    def detection(self) -> float:
        """Return how long a death goes unnoticed as a rule, in seconds."""
        return self._swim.detection()

    # ---- what to do about it --------------------------------------------------------------

    def _membership(self, event: swim.Event, now: float) -> None:
        changed = False
        for instruction in self._swim.step(event, now, self._rng):
            match instruction:
                case swim.Probe():
                    self._probe(instruction)
                case swim.Sync(target):
                    self._merge_with(target)
                case swim.Changed():
                    changed = True
        if self._swim.news is not self._news:
            self._news = self._swim.news
            self._core.set_news(encode(self._news) if self._news else b"")
        if changed:
            self.changes += 1
            self._was_away()
            if self.view.identity != self._identity:
                self._place()

    def _was_away(self) -> None:
        """Files may have changed while we were taken for dead and told nothing."""
        own = self.view.get(self.me.number)
        if own is not None and own.incarnation != self.incarnation:
            self.incarnation = own.incarnation
            self._core.distrust_files()

    def _place(self) -> None:
        """Put who lives now into force."""
        self._identity = self.view.identity
        owners = Owners(self.view, self.settings.virtual_nodes)
        self._core.set_placement(
            owners.ring, owners.numbers, owners.addresses, owners.identity, owners.racks
        )
        self._restoring(restoring.Viewed(owners, self.view.live()), time.monotonic())

    def _probe(self, probe: swim.Probe) -> None:
        def answered(kind: str, result: tuple[Any, ...]) -> None:
            if not probe.ticket:
                return
            if kind == "failed":
                event: swim.Event = swim.Failed(probe.ticket)
            else:
                age_ms, identity, news = result
                entries = decode(news) if news else []
                event = swim.Answered(probe.ticket, entries, identity, age_ms / 1000)
            self._membership(event, time.monotonic())

        via = probe.via.address if probe.via else ""
        news = encode(probe.news) if probe.news else b""
        self._core.probe(
            self._ticket(answered),
            probe.target.address,
            via,
            news,
            probe.deadline,
            member=probe.target.number,
        )

    def _merge_with(self, member: Member) -> None:
        def answered(kind: str, result: tuple[Any, ...]) -> None:
            if kind == "reply":
                self._membership(swim.Exchanged(decode(result[0])), time.monotonic())

        self._send(member, "agent", "join", self.view.encode(), answered)

    def _restoring(self, event: restoring.Event, now: float) -> None:
        for instruction in self._restorer.step(event, now, self._rng):
            match instruction:
                case Ask(ticket, member, request):
                    self._send(member, self.name, "ask", _encode(request), self._replied(ticket))
                case MergeViews(member):
                    self._merge_with(member)
                case Pull():
                    self._pull(instruction)

    def _replied(self, ticket: int) -> Callable[[str, tuple[Any, ...]], None]:
        def answered(kind: str, result: tuple[Any, ...]) -> None:
            event: restoring.Event = restoring.Failed(ticket)
            if kind == "reply":
                event = restoring.Replied(ticket, _REPLY.decode(result[0]))
            self._restoring(event, time.monotonic())

        return answered

    def _pull(self, pull: Pull) -> None:
        def answered(kind: str, result: tuple[Any, ...]) -> None:
            if kind == "pulled":
                event: restoring.Event = restoring.Pulled(pull.ticket, result[0])
            else:
                event = restoring.Failed(pull.ticket, gone=result[0] in _GONE)
            self._restoring(event, time.monotonic())

        self._core.pass_point("restore")
        self._core.pull(
            self._ticket(answered),
            pull.held.key,
            pull.source.address,
            _TIERS[pull.held.tier],
            self.settings.deadline,
        )

    def _send(
        self,
        member: Member,
        service: str,
        method: str,
        message: bytes,
        then: Callable[[str, tuple[Any, ...]], None],
    ) -> None:
        deadline = self.settings.deadline
        self._core.ask(self._ticket(then), member.address, service, method, message, deadline)

    def _ticket(self, then: Callable[[str, tuple[Any, ...]], None]) -> int:
        self._next_ticket += 1
        self._waiting[self._next_ticket] = then
        return self._next_ticket
