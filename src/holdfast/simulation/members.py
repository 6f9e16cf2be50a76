"""Simulated members: the machine of membership/swim.py for each, on a simulated network."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from ..membership.events import (
    ExchangedEvent,
    LeaveEvent,
    MembershipEvent,
    MemberTickEvent,
    ProbeAnsweredEvent,
    ProbeFailedEvent,
    ProbeHeardEvent,
    ProbeInstruction,
    SyncInstruction,
    ViewInstruction,
)
from ..membership.swim import Swim
from ..membership.view import Entry, Member, State, View
from .network import Network, NetworkCall

#: Of simulated members, in seconds: times are in periods.
PERIOD = 1.0
#: For exchanges of whole views, in seconds.
SYNC_DEADLINE = 3.0

_TICK = MemberTickEvent()


class ProbeMessage(msgspec.Struct, frozen=True, gc=False):
    """Asks whether the receiver lives."""

    sender: int
    identity: int
    news: list[Entry]


class RelayMessage(msgspec.Struct, frozen=True, gc=False):
    """Asks the receiver to probe another in the place of the sender."""

    address: str
    deadline: float
    probe: ProbeMessage


class ProbeAnswer(msgspec.Struct, frozen=True, gc=False):
    """Says that the member that was probed lives."""

    identity: int
    news: list[Entry]


class ViewMessage(msgspec.Struct, frozen=True, gc=False):
    """A whole view, less what everybody knew at the start; it is answered with another."""

    entries: list[Entry]


class SimulatedMember:
    """What an agent does around its machine, on a simulated network."""

    def __init__(
        self, network: Network, swim: Swim, changed: Callable[[Member, Entry], None]
    ) -> None:
        self.member = swim.member
        self.swim = swim
        self.process = network.start(self.member.address)
        self._network = network
        self._changed = changed
        self.process.serves.update(
            {
                ProbeMessage: self._probed,
                RelayMessage: self._relay,
                ViewMessage: self._exchange,
            }
        )
        network.at(network.now + network.rng.random() * PERIOD, self.process, self._tick, None)

    def step(self, event: MembershipEvent) -> None:
        """Let the machine take an event in, and do what it wants."""
        network = self._network
        for instruction in self.swim.step(event, network.now, network.rng):
            if isinstance(instruction, ProbeInstruction):
                self._probe(instruction)
            elif isinstance(instruction, ViewInstruction):
                for entry in instruction.entries:
                    self._changed(self.member, entry)
            else:
                self._sync(instruction)

    def _tick(self, _: object) -> None:
        self.step(_TICK)
        network = self._network
        network.at(network.now + PERIOD, self.process, self._tick, None)

    def _probe(self, probe: ProbeInstruction) -> None:
        message = ProbeMessage(self.member.number, self.swim.view.identity, probe.news)
        address = probe.target.address
        if not probe.ticket:
            self._network.send(self.process, address, message)
        elif probe.via is None:
            self._network.request(
                self.process, address, message, probe.deadline, self._settled, probe.ticket
            )
        else:
            relay = RelayMessage(address, probe.deadline, message)
            self._network.request(
                self.process, probe.via.address, relay, probe.deadline, self._settled, probe.ticket
            )

    def _settled(self, answer: ProbeAnswer | None, ticket: int) -> None:
        if answer is None:
            self.step(ProbeFailedEvent(ticket))
        else:
            self.step(ProbeAnsweredEvent(ticket, answer.news, answer.identity, 0.0))

    def _probed(self, call: NetworkCall) -> None:
        # The core answers before the machine hears of it, and lets it sleep if nothing is new.
        identity = self.swim.view.identity
        if call.open:
            call.answer(ProbeAnswer(identity, self.swim.news))
        message: ProbeMessage = call.message
        if message.news or message.identity != identity:
            self.step(ProbeHeardEvent(message.news, message.identity, message.sender))

    def _relay(self, call: NetworkCall) -> None:
        relay: RelayMessage = call.message
        self._network.request(
            self.process, relay.address, relay.probe, relay.deadline, self._relayed, call
        )

    def _relayed(self, answer: ProbeAnswer | None, call: NetworkCall) -> None:
        if answer is not None:
            call.answer(answer)

    def _sync(self, sync: SyncInstruction) -> None:
        message = ViewMessage(self.swim.view.changes())
        self._network.request(
            self.process, sync.target.address, message, SYNC_DEADLINE, self._synced
        )

    def _exchange(self, call: NetworkCall) -> None:
        self.step(ExchangedEvent(call.message.entries))
        call.answer(ViewMessage(self.swim.view.changes()))

    def _synced(self, answer: ViewMessage | None, _: object) -> None:
        if answer is not None:
            self.step(ExchangedEvent(answer.entries))


class Members:
    """A cluster of simulated members, all of which know each other at the start."""

    def __init__(
        self, network: Network, count: int, changed: Callable[[Member, Entry], None] | None = None
    ) -> None:
        self.network = network
        self._changed = changed or _ignore
        members = [self._new(f"n{place:05d}", place) for place in range(count)]
        base = View(Entry(member, 0, State.ALIVE) for member in members)
        self._base = base
        #: Those that were not killed, by node.
        self.running: dict[str, SimulatedMember] = {}
        for member in members:
            self._start(member, View(base=base))

    @property
    def nodes(self) -> list[str]:
        """The names of all nodes, whether their members run or not."""
        return [member.node for member in self._base.live()]

    def kill(self, node: str) -> Member:
        """End the member of `node` without a word; return it."""
        gone = self.running.pop(node)
        self.network.kill(gone.member.address)
        return gone.member

    def leave(self, node: str) -> Member:
        """Let the member of `node` say farewell and end."""
        self.running[node].step(LeaveEvent())
        return self.kill(node)

    def restart(self, node: str, seeds: int = 3) -> Member:
        """Start a new member on `node` that is told whom a few others know to live."""
        if node in self.running:
            self.kill(node)
        member = self._new(node, len(self._base.live()))
        view = View(base=self._base)
        others = sorted(self.running)
        for name in self.network.rng.sample(others, min(seeds, len(others))):
            known = self.running[name].swim.view
            view.merge(known.changes())
        self._start(member, view)
        return member

    def pause(self, nodes: Iterable[str]) -> None:
        """Stop the members of `nodes`."""
        for node in nodes:
            self.network.pause(self.running[node].member.address)

    def resume(self, nodes: Iterable[str]) -> None:
        """Let the members of `nodes` go on."""
        for node in nodes:
            self.network.resume(self.running[node].member.address)

    def addresses(self, nodes: Iterable[str]) -> list[str]:
        """Return the addresses of the members that run on `nodes`."""
        return [self.running[node].member.address for node in nodes if node in self.running]

    def identities(self) -> set[int]:
        """Return the identities of the views of all that run; one when all agree."""
        return {member.swim.view.identity for member in self.running.values()}

    def _new(self, node: str, place: int) -> Member:
        rng = self.network.rng
        number = rng.getrandbits(63)
        started = int(self.network.now * 1e9) + place
        return Member(
            node=node,
            number=number,
            started=started,
            address=f"{node}/{number:x}",
            socket="",
            pid=1,
        )

    def _start(self, member: Member, view: View) -> None:
        swim = Swim(member, view, PERIOD)
        self.running[member.node] = SimulatedMember(self.network, swim, self._changed)


def _ignore(_: Member, __: Entry) -> None:
    pass
