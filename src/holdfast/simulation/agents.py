"""A simulated agent: the machines of membership and restoring around a store of plain Python.

The data path is what the core does: chains of puts with room reserved along the whole chain, the
last owner committing first, and every owner checking the list of owners before anything else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from ..errors import BadInput, DeadlineMissed, HoldfastError, NotFound, StaleView, Unavailable
from ..membership import events as membership
from ..membership.owners import Owners
from ..membership.view import Member, View
from ..restoration import events as restoring
from ..restoration.messages import Reply
from ..restoration.restorer import RESTING, Restorer
from .members import PERIOD, RelayMessage, SimulatedMember
from .messages import (
    DONE,
    AgedAnswer,
    DoubtMessage,
    DropMessage,
    Found,
    GetMessage,
    Gone,
    JoinMessage,
    MemberProbe,
    PutMessage,
    Refusal,
    RestoreMessage,
    VerifyMessage,
    ViewRequest,
)
from .network import Call, Network
from .store import Store, Writer

#: So many bytes travel in the time of one message.
_PIECE = 10
#: How likely an agent is to read all its copies again in a period.
_SCRUB = 0.1

_TICK = restoring.TickEvent()


class AgentSettings(msgspec.Struct, frozen=True):
    """What all agents of a simulated cluster have in common; times in seconds."""

    virtual_nodes: int = 8
    deadline: float = 4.0
    restore_rate: float = 1e6
    partition_wait: float = 8.0


class Agent(SimulatedMember):
    """One agent; tests replace its parts by bad ones."""

    store_class = Store
    restorer_class = Restorer
    fenced = True

    def __init__(
        self,
        network: Network,
        member: Member,
        view: View,
        settings: AgentSettings,
        capacity: int,
        watch: Callable[[Agent, str, bytes], None],
    ) -> None:
        self._settings = settings
        self._watch = watch
        self._stuck = False
        self._held: list[tuple[Callable[[Any], None], Any]] = []  # what waits for the Python loop
        self._beat = network.now
        self._ticks = 0
        self.owners: Owners | None = None
        self.store = self.store_class(member.number, capacity, self._changes)
        self.restorer = self.restorer_class(
            member.number, self.store, settings.restore_rate, settings.partition_wait
        )
        super().__init__(network, member, view, lambda _member, _entry: None)
        self.process.serves.update(
            {
                MemberProbe: self._probed,
                PutMessage: self._put,
                GetMessage: self._get,
                VerifyMessage: self._verify,
                DropMessage: self._drop,
                ViewRequest: self._view,
                JoinMessage: self._join,
                DoubtMessage: self._doubt,
                RestoreMessage: self._restore,
            }
        )
        self._place()

    def step(self, event: membership.Event) -> None:
        """Let the machine of membership take an event in; other members are other owners."""
        if self._waits(self.step, event):
            return
        super().step(event)
        if self.owners is None or self.swim.view.identity != self.owners.identity:
            self._place()

    def _place(self) -> None:
        view = self.swim.view
        self.owners = Owners(view, self._settings.virtual_nodes)
        self.store.place(self.owners)
        self._watch(self, "viewed", b"")
        self._restoring(restoring.ViewEvent(self.owners, view.live(), view.lost()))

    # ---- the Python loop -----------------------------------------------------------------------

    def stick(self) -> None:
        """Let the Python loop stand still; the core goes on."""
        self._stuck = True

    def go_on(self) -> None:
        """Let the Python loop go on with all that waits for it."""
        self._stuck = False
        held, self._held = self._held, []
        for action, argument in held:
            self._network.at(self._network.now, self.process, action, argument)

    def _waits(self, action: Callable[[Any], None], argument: Any) -> bool:
        if self._stuck:
            self._held.append((action, argument))
        return self._stuck

    def _tick(self, _: object) -> None:
        if self._waits(self._tick, _):
            return
        self._beat = self._network.now
        super()._tick(_)
        if self._network.rng.random() < _SCRUB * PERIOD:
            for key in list(self.store.objects):
                self.store.verify(key)
        self._ticks += 1
        if self.restorer.busy or self._ticks % RESTING == 0:
            self._restoring(_TICK)

    def _changes(self, what: str, key: bytes) -> None:
        self._watch(self, what, key)

    def _probe(self, probe: membership.ProbeInstruction) -> None:
        identity, target = self.swim.view.identity, probe.target
        message = MemberProbe(self.member.number, identity, probe.news, target.number)
        if not probe.ticket:
            self._network.send(self.process, target.address, message)
            return
        asked: Any = message
        address = target.address
        if probe.via is not None:
            asked, address = RelayMessage(address, probe.deadline, message), probe.via.address
        self._network.request(
            self.process, address, asked, probe.deadline, self._settled, probe.ticket
        )

    def _probed(self, call: Call) -> None:
        """Answer a probe, as the core does: at once, and with the age of the Python loop."""
        identity, message = self.swim.view.identity, call.message
        if message.wanted != self.member.number:
            call.answer(Gone())
            return
        if call.open:
            age = self._network.now - self._beat
            call.answer(AgedAnswer(identity, self.swim.news, age))
        if message.news or message.identity != identity:
            self.step(membership.HeardEvent(message.news, message.identity, message.sender))

    def _settled(self, answer: Any, ticket: int) -> None:
        if answer is None or isinstance(answer, Gone):
            self.step(membership.FailedEvent(ticket))
        else:
            self.step(membership.AnsweredEvent(ticket, answer.news, answer.identity, answer.age))

    # ---- restoring -----------------------------------------------------------------------------

    def _restoring(self, event: restoring.Event) -> None:
        if self._waits(self._restoring, event):
            return
        network = self._network
        for instruction in self.restorer.step(event, network.now, network.rng):
            if isinstance(instruction, restoring.AskInstruction):
                network.request(
                    self.process,
                    instruction.member.address,
                    RestoreMessage(instruction.request),
                    self._settings.deadline,
                    self._replied,
                    instruction.ticket,
                )
            elif isinstance(instruction, restoring.MergeInstruction):
                self._sync(membership.SyncInstruction(instruction.member))
            else:
                network.at(network.now, self.process, self._pull, instruction)

    def _replied(self, reply: Reply | None, ticket: int) -> None:
        if reply is None:
            self._restoring(restoring.FailedEvent(ticket))
        else:
            self._restoring(restoring.RepliedEvent(ticket, reply))

    def _pull(self, pull: restoring.PullInstruction) -> None:
        key = pull.held.key
        if key in self.store.dropped:
            self._restoring(restoring.FailedEvent(pull.ticket))
        elif key in self.store.objects:
            self._restoring(restoring.PulledEvent(pull.ticket, pull.held.size))
        else:
            self._network.request(
                self.process,
                pull.source.address,
                GetMessage(key),
                self._settings.deadline,
                self._pull_begins,
                pull,
            )

    def _pull_begins(self, reply: Found | Refusal | None, pull: restoring.PullInstruction) -> None:
        if not isinstance(reply, Found):
            self._restoring(restoring.FailedEvent(pull.ticket))
            return
        held, network = reply.held, self._network
        try:
            writer = self.store.create(
                held.key, reply.content, held.size, pull.held.tier, held.copies, held.crc32c
            )
        except HoldfastError:
            self._restoring(restoring.FailedEvent(pull.ticket))
            return
        end = network.now + network.travel() * held.size / _PIECE
        network.at(end, self.process, self._pull_ends, (pull, writer, reply.content))

    def _pull_ends(self, pulled: tuple[restoring.PullInstruction, Writer, bytes]) -> None:
        pull, writer, content = pulled
        try:
            writer.commit(content)
        except HoldfastError:
            self._restoring(restoring.FailedEvent(pull.ticket))
        else:
            self._watch(self, "pulled", pull.held.key)
            self._restoring(restoring.PulledEvent(pull.ticket, pull.held.size))

    def _restore(self, call: Call) -> None:
        if not self._waits(self._restore, call):
            call.answer(self.restorer.answer(call.message.request))
            self._restoring(restoring.AskedEvent())

    # ---- objects -------------------------------------------------------------------------------

    def _fence(self, key: bytes, owners: list[int], copies: int) -> None:
        if not owners:
            raise BadInput("no owners are named")
        if self.fenced and owners != self.store.owners(key, copies):
            raise StaleView("other members own the object")

    def _put(self, call: Call) -> None:
        message: PutMessage = call.message
        key, content, copies = message.key, message.content, len(message.owners)
        try:
            self._fence(key, message.owners, copies)
            writer = self.store.create(key, content, message.size, message.tier, copies)
        except HoldfastError as error:
            self._refuse(call, error)
            return
        if not message.onward:
            self._commit(call, writer)
            return
        # Those behind us must fail before our sender does, or it would blame us for them.
        hops = len(message.onward)
        deadline = message.deadline * hops / (hops + 1)
        onward = msgspec.structs.replace(message, onward=message.onward[1:], deadline=deadline)
        self._network.request(
            self.process, message.onward[0], onward, deadline, self._put_onward, (call, writer)
        )

    def _put_onward(self, reply: Any, pending: tuple[Call, Writer]) -> None:
        call, writer = pending
        if reply is DONE:
            self._commit(call, writer)
            return
        writer.abandon()
        if reply is None:
            reply = Refusal(DeadlineMissed("it does not answer"), call.message.onward[0])
        call.answer(reply)

    def _commit(self, call: Call, writer: Writer) -> None:
        try:
            writer.commit(call.message.content)
        except HoldfastError as error:
            self._refuse(call, error)
        else:
            call.answer(DONE)

    def _get(self, call: Call) -> None:
        try:
            stored = self.store.get(call.message.key)
        except HoldfastError as error:
            ours = call.message.wanted in (0, self.member.number)
            if ours or type(error) is not NotFound:
                self._refuse(call, error)
            else:
                self._refuse(call, Unavailable("this address now belongs to another member"))
        else:
            call.answer(Found(stored.held, stored.content))

    def _verify(self, call: Call) -> None:
        self.store.verify(call.message.key)
        call.answer(DONE)

    def _drop(self, call: Call) -> None:
        message: DropMessage = call.message
        try:
            stored = self.store.objects.get(message.key)
            copies = max(len(message.owners), stored.held.copies if stored else 0)
            self._fence(message.key, message.owners, copies)
            self.store.drop(message.key)
        except HoldfastError as error:
            self._refuse(call, error)
        else:
            call.answer(DONE)

    def _refuse(self, call: Call, error: HoldfastError) -> None:
        call.answer(Refusal(error, self.member.address))

    # ---- views ---------------------------------------------------------------------------------

    def _view(self, call: Call) -> None:
        if not self._waits(self._view, call):
            call.answer(self.swim.view.entries())

    def _exchange(self, call: Call) -> None:
        if not self._waits(self._exchange, call):
            super()._exchange(call)

    def _join(self, call: Call) -> None:
        if not self._waits(self._join, call):
            self.step(membership.ExchangedEvent(call.message.entries))
            call.answer(self.swim.view.entries())

    def _doubt(self, call: Call) -> None:
        if not self._waits(self._doubt, call):
            self.step(membership.DoubtEvent(call.message.number))
            call.answer(DONE)
