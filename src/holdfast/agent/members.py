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
from ..membership.owners import Owners, lost_nodes
from ..membership.swim import LONGEST_SLEEP, Swim
from ..membership.view import UNREADABLE, Entry, Member, View, encode, read
from ..restoration import events as restoring
from ..restoration.messages import Reply, Request
from ..restoration.restorer import RESTING, Restorer, RestoreStatus
from .holdings import TIERS, CoreHoldings
from .narrator import Narrator
from .story import Story
from .trouble import Trouble

_REQUEST = msgspec.msgpack.Decoder(Request)
_REPLY = msgspec.msgpack.Decoder(Reply)
_encode = msgspec.msgpack.encode
#: Deaths within so many periods count as one event.
_AT_ONCE = 10
#: Errors of a pull whose object is not to be had any more.
_GONE = ("NotFound", "Dropped")
#: Takes how a request ended: the name of the event, and what came with it.
_Then = Callable[[str, tuple[Any, ...]], None]


class Members:
    """Membership and restoring of one agent; also the service `restoring`."""

    name = "restoring"

    def __init__(
        self, core: _core.Agent, me: Member, settings: Config, trouble: Trouble, story: Story
    ) -> None:
        self.me = me
        self.trouble = trouble
        self._narrator = Narrator(story, me)
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
        self._lost: frozenset[str] = frozenset()
        self.incarnation = 0
        self._news: list[Entry] = []  # that answers to probes carry
        self._next_ticket = 0
        self._ticks = 0
        self._waiting: dict[int, _Then] = {}
        self._unsent: dict[int, Exception] = {}  # of those, requests that the core did not take
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
        self._trust_files()
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
        self._trust_files()
        self._narrator.ticked(now - self._next_tick, LONGEST_SLEEP * period)
        self._next_tick = now + period
        self._membership(swim.TickEvent(), now)
        self._core.beat()  # only now: a loop that fails each time is as good as stuck
        self._ticks += 1
        if self._restorer.busy or self._ticks % RESTING == 0:
            self._restoring(restoring.TickEvent(), now)

    def take_events(self) -> None:
        """Take all that the core has to tell; whatever is wrong with one is nothing to others."""
        while (event := self._core.next_event()) is not None:
            try:
                self._take(event)
            except Exception as error:
                self.trouble.failure(f"handling an event of the kind {event[0]!r}", error)
        while self._unsent:
            ticket, why = self._unsent.popitem()
            try:
                self._waiting.pop(ticket)("failed", ("HoldfastError", repr(why)))
            except Exception as error:
                self.trouble.failure("cancelling a request", error)

    def _take(self, event: tuple[Any, ...]) -> None:
        if event[0] == "heard":
            _, identity, sender, news = event
            entries = self._read_news(news, "the gossip in a probe")
            if entries is not None:
                self._membership(swim.HeardEvent(entries, identity, sender), time.monotonic())
        elif event[0] == "doubted":
            _, member, path, kind, text = event
            self.doubt(member, path, f"{kind}: {text}")
        elif event[0] == "incident":
            self._narrator.incident(event[1:], self.view)
        else:
            self._waiting.pop(event[1])(event[0], event[2:])

    def _read_news(self, message: bytes, what: str) -> list[Entry] | None:
        try:
            return read(message) if message else []
        except UNREADABLE as error:
            self.trouble.ill_formed(what, error)
            return None

    def join(self, entries: list[Entry]) -> None:
        """Merge what a launcher, a client or another member knows."""
        self.joined = True
        self._membership(swim.ExchangedEvent(entries), time.monotonic())

    def doubt(self, member: int, about: str = "", cause: str = "") -> None:
        """Suspect a member that failed a client of ours, or our core for one."""
        self._narrator.failed(member, about, cause, self.view)
        self._membership(swim.DoubtEvent(member), time.monotonic())

    def leave(self) -> None:
        """Say that we go, so that nobody has to find out."""
        self._membership(swim.LeaveEvent(), time.monotonic())

    def successor(self) -> Member | None:
        """Return the later agent of our node, if it has one: then nobody counts us any more."""
        return self.view.later(self.me)

    def talks(self) -> bool:
        """Whether requests of ours are under way."""
        return bool(self._waiting)

    def handle(self, method: str, message: bytes) -> bytes:
        """Answer another member's restoring."""
        if method != "ask":
            raise BadInput(f"restoring has no method {method!r}")
        reply = _encode(self._restorer.answer(_REQUEST.decode(message)))
        self._restoring(restoring.AskedEvent(), time.monotonic())
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
                case swim.ProbeInstruction():
                    self._probe(instruction)
                case swim.SyncInstruction(target):
                    self._merge_with(target)
                case swim.ViewInstruction(entries):
                    changed = True
                    self._narrator.changed(entries, event, self.view)
        if changed:
            self.changes += 1
            self._was_away()
        # Of some who came and died we may not have heard while they lived.
        if self.view.identity != self._identity or (
            changed and lost_nodes(self.view) != self._lost
        ):
            self._place()
        if self._swim.news is not self._news:
            self._news = self._swim.news
            self._core.set_news(encode(self._news) if self._news else b"")

    def _trust_files(self) -> None:
        """Let copies be used until the next tick is long due.

        Nobody could tell us of changes then: we were stopped, or the host slept, during which
        `time.monotonic` stands still. The core has a clock that goes on.
        """
        self._core.trust_files((LONGEST_SLEEP + 1) * self.settings.probe_period)

    def _was_away(self) -> None:
        """Files may have changed while we were taken for dead and told nothing."""
        own = self.view.get(self.me.number)
        if own is not None and own.incarnation != self.incarnation:
            self.incarnation = own.incarnation
            self._core.distrust_files()

    def _place(self) -> None:
        """Put who lives now into force."""
        owners = Owners(self.view, self.settings.virtual_nodes)
        self._core.set_placement(
            owners.ring,
            owners.numbers,
            owners.addresses,
            owners.identity,
            owners.racks,
            owners.with_lost,
        )
        if owners.identity != self._identity:
            self._narrator.placed(self.view)
        self._identity, self._lost = owners.identity, owners.lost
        viewed = restoring.ViewEvent(owners, self.view.live(), self.view.lost())
        self._restoring(viewed, time.monotonic())
        self._narrator.waits(self._restorer.partition_wait_left(time.monotonic()))

    def _probe(self, probe: swim.ProbeInstruction) -> None:
        def answered(kind: str, result: tuple[Any, ...]) -> None:
            if not probe.ticket:
                return
            event: swim.Event = swim.FailedEvent(probe.ticket)
            if kind == "answered":
                age_ms, identity, news = result
                entries = self._read_news(news, f"the answer from {probe.target.node} to a probe")
                if entries is not None:
                    event = swim.AnsweredEvent(probe.ticket, entries, identity, age_ms / 1000)
            self._membership(event, time.monotonic())

        via = probe.via.address if probe.via else ""

        def begin(ticket: int) -> None:
            news = encode(probe.news) if probe.news else b""
            target = probe.target
            self._core.probe(
                ticket, target.address, via, news, probe.deadline, member=target.number
            )

        self._begin(begin, answered)

    def _merge_with(self, member: Member) -> None:
        def answered(kind: str, result: tuple[Any, ...]) -> None:
            if kind != "reply":
                return
            entries = self._read_news(result[0], f"the view from {member.node}")
            if entries is not None:
                self._membership(swim.ExchangedEvent(entries), time.monotonic())

        self._send(member, "agent", "join", self.view.encode(), answered)

    def _restoring(self, event: restoring.Event, now: float) -> None:
        for instruction in self._restorer.step(event, now, self._rng):
            match instruction:
                case restoring.AskInstruction(ticket, member, request):
                    then = self._replied(ticket, member)
                    self._send(member, self.name, "ask", _encode(request), then)
                case restoring.MergeInstruction(member):
                    self._merge_with(member)
                case restoring.PullInstruction():
                    self._pull(instruction)
        self._narrator.restores(self._restorer.missing, self._restorer.restored)

    def _replied(self, ticket: int, member: Member) -> _Then:
        def answered(kind: str, result: tuple[Any, ...]) -> None:
            event: restoring.Event = restoring.FailedEvent(ticket)
            if kind == "reply":
                try:
                    event = restoring.RepliedEvent(ticket, _REPLY.decode(result[0]))
                except UNREADABLE as error:
                    self.trouble.ill_formed(f"a reply from {member.node} about copies", error)
            self._restoring(event, time.monotonic())

        return answered

    def _pull(self, pull: restoring.PullInstruction) -> None:
        def answered(kind: str, result: tuple[Any, ...]) -> None:
            if kind == "pulled":
                event: restoring.Event = restoring.PulledEvent(pull.ticket, result[0])
            else:
                event = restoring.FailedEvent(pull.ticket, gone=result[0] in _GONE)
            self._restoring(event, time.monotonic())

        def begin(ticket: int) -> None:
            held = pull.held
            self._core.pass_point("restore")
            self._core.pull(
                ticket, held.key, pull.source.address, TIERS[held.tier], self.settings.deadline
            )

        self._begin(begin, answered)

    def _send(self, member: Member, service: str, method: str, message: bytes, then: _Then) -> None:
        deadline = self.settings.deadline

        def begin(ticket: int) -> None:
            self._core.ask(ticket, member.address, service, method, message, deadline)

        self._begin(begin, then)

    def _begin(self, request: Callable[[int], None], then: _Then) -> None:
        """Begin a request under a new ticket; `then` is called in any case, and never at once."""
        self._next_ticket += 1
        ticket = self._next_ticket
        self._waiting[ticket] = then
        try:
            request(ticket)
        except Exception as error:
            self._unsent[ticket] = error
            self.trouble.failure("a request to another member", error)
