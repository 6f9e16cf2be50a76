"""Drives the machine of this node: the core does what it wants, and what comes back steps it.

Two services rest on it: `membership` and `restoring`.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence

import msgspec

from .. import _core
from ..membership import events as swim
from ..membership.key_spaces import KeySpace
from ..membership.swim import LONGEST_SLEEP
from ..membership.view import UNREADABLE, Entry, Member, View, encode, read
from ..placement.windows import Roster
from ..restoration import events as restoring
from ..restoration import node_machine
from ..restoration.messages import Reply, Request
from ..restoration.node_machine import NodeMachine
from . import shell as shells
from .holdings import CoreHoldings
from .narrator import Narrator
from .services import Services
from .shell import Shell

_REPLY = msgspec.msgpack.Decoder(Reply)
#: Errors of a pull whose object no member has any more.
_GONE = ("NotFound", "Dropped")


class NodeDriver:
    """The machine of one agent with a clock and randomness; `services` hear what concerns them."""

    def __init__(
        self, shell: Shell, services: Services, key_spaces: Sequence[KeySpace] = ()
    ) -> None:
        config, member = shell.config, shell.member
        self.joined = False
        self._shell = shell
        self._services = services
        self._narrator = Narrator(shell.story, member)
        self._rng = random.Random(member.number)
        self._identity = 0  # of the view that was last told
        self.machine = NodeMachine(
            member,
            View(),
            CoreHoldings(shell.core),
            period=config.probe_period,
            virtual_nodes=config.virtual_nodes,
            restore_rate=config.restore_rate,
            partition_wait=config.partition_wait,
            key_spaces=key_spaces,
        )
        shell.on(_core.HeardEvent, self._heard)
        shell.on(_core.DoubtedEvent, self._doubted)
        shell.on(_core.IncidentEvent, lambda told: self._narrator.incident(told, self.view))

    @property
    def view(self) -> View:
        """The members as we know them."""
        return self.machine.view

    # ---- what happens ---------------------------------------------------------------------

    def begin(self) -> None:
        """Own what a node alone owns, until we hear of others."""
        self._carry_out(self.machine.begin(time.monotonic(), self._rng))

    def tick(self, late: float) -> None:
        """Do what is done once a period; `late` is by how many seconds that was too late."""
        self._narrator.ticked(late, LONGEST_SLEEP * self._shell.config.probe_period)
        self._step(swim.MemberTickEvent())
        self._shell.core.beat()  # only now: a loop that fails each time is as good as stuck
        self._step(restoring.RestorationTickEvent())

    def join(self, entries: list[Entry]) -> None:
        """Merge what a launcher, a client or another member knows."""
        self.joined = True
        self._step(swim.ExchangedEvent(entries))

    def doubt(self, member: int, about: str, cause: str) -> None:
        """Suspect a member that failed a client of ours, or our core for one."""
        self._narrator.failed(member, about, cause, self.view)
        self._step(swim.MemberDoubtEvent(member))

    def learn(self, rosters: Sequence[Roster]) -> None:
        """Place what lies in windows of these, and let all members hear of them."""
        self._step(restoring.RostersEvent(rosters))

    def leave(self) -> None:
        """Say that we go, so that nobody has to find out."""
        self._step(swim.LeaveEvent())

    def successor(self) -> Member | None:
        """Return the later agent of our node, if it has one: then nobody counts us any more."""
        return self.view.later(self._shell.member)

    def answer(self, request: Request) -> Reply:
        """Answer another member's restoring."""
        reply = self.machine.answer(request)
        self._step(restoring.AskedEvent())
        return reply

    def _heard(self, told: _core.HeardEvent) -> None:
        entries = self._read(told.news, "the gossip in a probe")
        if entries is not None:
            self._step(swim.ProbeHeardEvent(entries, told.identity, told.sender))

    def _doubted(self, told: _core.DoubtedEvent) -> None:
        self.doubt(told.member, told.path, f"{told.code}: {told.message}")

    def _read(self, message: bytes, what: str) -> list[Entry] | None:
        try:
            return read(message) if message else []
        except UNREADABLE as error:
            self._shell.trouble.ill_formed(what, error)
            return None

    # ---- what to do about it --------------------------------------------------------------

    def _step(self, event: node_machine.NodeEvent) -> None:
        self._carry_out(self.machine.step(event, time.monotonic(), self._rng), event)

    def _carry_out(
        self,
        instructions: list[node_machine.NodeInstruction],
        cause: node_machine.NodeEvent | None = None,
    ) -> None:
        for instruction in instructions:
            match instruction:
                case swim.ProbeInstruction():
                    self._probe(instruction)
                case swim.SyncInstruction(target):
                    self._merge_with(target)
                case swim.ViewInstruction(entries):
                    self._narrator.changed(entries, cause, self.view)
                case node_machine.AwayInstruction():
                    self._services.was_away()
                case node_machine.PlacedInstruction():
                    self._placed(instruction)
                case node_machine.SuspectsInstruction(numbers):
                    self._shell.core.set_suspects(list(numbers))
                case node_machine.NewsInstruction(news):
                    self._shell.core.set_news(encode(news) if news else b"")
                case restoring.AskInstruction():
                    self._ask(instruction)
                case restoring.PullInstruction():
                    self._pull(instruction)
                case restoring.RestoreInstruction():
                    self._refuse(instruction)
        restorer = self.machine.restorer
        self._narrator.restores(restorer.missing, restorer.restored)

    def _placed(self, placed: node_machine.PlacedInstruction) -> None:
        if placed.owners.identity != self._identity:  # else it was for a roster, or a node lost
            self._identity = placed.owners.identity
            self._narrator.placed(self.view)
        self._narrator.waits(self.machine.restorer.partition_wait_left(time.monotonic()))
        self._services.viewed(placed.owners, placed.live, placed.lost)

    def _probe(self, probe: swim.ProbeInstruction) -> None:
        def ended(told: shells.Probed) -> None:
            if not probe.ticket:
                return
            event: swim.MembershipEvent = swim.ProbeFailedEvent(probe.ticket)
            if isinstance(told, _core.AnsweredEvent):
                what = f"the answer from {probe.target.node} to a probe"
                entries = self._read(told.news, what)
                if entries is not None:
                    event = swim.ProbeAnsweredEvent(probe.ticket, entries, told.identity, told.age)
            self._step(event)

        news = encode(probe.news) if probe.news else b""
        self._shell.probe(probe.target, probe.via, news, probe.deadline, ended)

    def _merge_with(self, member: Member) -> None:
        def ended(told: shells.Replied) -> None:
            if isinstance(told, _core.ReplyEvent):
                entries = self._read(told.message, f"the view from {member.node}")
                if entries is not None:
                    self._step(swim.ExchangedEvent(entries))

        self._shell.ask(member, "membership", "join", self.view.encode(), ended)

    def _ask(self, ask: restoring.AskInstruction) -> None:
        def ended(told: shells.Replied) -> None:
            event: restoring.RestorationEvent = restoring.RequestFailedEvent(ask.ticket)
            if isinstance(told, _core.ReplyEvent):
                try:
                    event = restoring.RequestRepliedEvent(ask.ticket, _REPLY.decode(told.message))
                except UNREADABLE as error:
                    what = f"a reply from {ask.member.node} about copies"
                    self._shell.trouble.ill_formed(what, error)
            self._step(event)

        message = msgspec.msgpack.encode(ask.request)
        self._shell.ask(ask.member, "restoring", "ask", message, ended)

    def _pull(self, pull: restoring.PullInstruction) -> None:
        def ended(told: shells.Pulled) -> None:
            if isinstance(told, _core.PulledEvent):
                self._step(restoring.RestoredEvent(pull.ticket, told.size))
            else:
                self._step(restoring.RequestFailedEvent(pull.ticket, gone=told.code in _GONE))

        self._shell.core.pass_point("restore")
        self._shell.pull(pull.held.key, _core.Tier(pull.held.tier), pull.source, ended)

    def _refuse(self, wanted: restoring.RestoreInstruction) -> None:
        """End what a key space wants and no agent can do: its ticket holds up others."""
        why = f"no agent can carry out a {type(wanted).__name__} for {wanted.held.key!r}"
        self._shell.refuse(why, lambda _: self._step(restoring.RequestFailedEvent(wanted.ticket)))
