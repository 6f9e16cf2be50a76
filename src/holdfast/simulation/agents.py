"""A simulated agent: the machine of a node around the index of the store.

The data path is what the core does: chains of puts with room reserved along the whole chain, the
last owner committing first, and every owner checking the list of owners before anything else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from ..errors import (
    BadInput,
    DeadlineMissed,
    Full,
    HoldfastError,
    NotFound,
    StaleView,
    Unavailable,
)
from ..membership import events as membership
from ..membership.key_spaces import KeySpace, fitting
from ..membership.owners import Owners
from ..membership.swim import LONGEST_SLEEP
from ..membership.view import Member, View
from ..restoration import events as restoring
from ..restoration.messages import Reply
from ..restoration.node_machine import (
    AwayInstruction,
    NodeEvent,
    NodeInstruction,
    NodeMachine,
    PlacedInstruction,
    SuspectsInstruction,
)
from ..restoration.restorer import Restorer
from .clients import Client
from .file_owner import FileOwner, Originals
from .members import PERIOD, RelayMessage, SimulatedMember
from .messages import (
    DONE,
    AgedAnswer,
    DoubtMessage,
    DropBelowMessage,
    DropMessage,
    FoundReply,
    GetMessage,
    GetViewMessage,
    Gone,
    JoinMessage,
    MemberProbe,
    PutMessage,
    ReadMessage,
    RefreshMessage,
    Refusal,
    RestoreMessage,
    VerifyMessage,
)
from .network import PIECE, Network, NetworkCall
from .store import Store, Writer

#: How likely an agent is to read all its copies again in a period.
_SCRUB = 0.1

_TICK = restoring.RestorationTickEvent()


class AgentSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What all agents of a simulated cluster have in common; times in seconds."""

    virtual_nodes: int = 8
    deadline: float = 4.0
    restore_rate: float = 1e6
    partition_wait: float = 8.0
    key_spaces: tuple[KeySpace, ...] = ()
    originals: Originals = msgspec.field(default_factory=Originals)


class Agent(SimulatedMember):
    """One agent; tests replace its parts by bad ones."""

    store_class = Store
    restorer_class = Restorer
    client_class = Client  # on whatever node
    fenced = True
    tabled = True  # key spaces have owners of their own

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
        self._suspects: frozenset[int] = frozenset()
        self.store = self.store_class(member.number, capacity, self._changes)
        self.node = NodeMachine(
            member,
            view,
            self.store,
            period=PERIOD,
            virtual_nodes=settings.virtual_nodes,
            restore_rate=settings.restore_rate,
            partition_wait=settings.partition_wait,
            key_spaces=settings.key_spaces if self.tabled else (),
            restorer=self.restorer_class,
        )
        super().__init__(network, self.node.swim, lambda _member, _entry: None)
        self.process.serves.update(
            {
                MemberProbe: self._probed,
                PutMessage: self._put,
                GetMessage: self._get,
                RefreshMessage: self._refresh,
                VerifyMessage: self._verify,
                DropMessage: self._drop,
                DropBelowMessage: self._drop_below,
                GetViewMessage: self._view,
                JoinMessage: self._join,
                DoubtMessage: self._doubt,
                RestoreMessage: self._restore,
            }
        )
        self.files = FileOwner(network, self.process, self.store, settings.originals, self._refuse)
        self.process.serves[ReadMessage] = self.files.read
        self._carry_out(self.node.begin(network.now, network.rng))

    @property
    def owners(self) -> Owners | None:
        """Who owns what, as this agent sees it."""
        return self.node.owners

    def step(self, event: NodeEvent) -> None:
        """Let the machine take an event in, and do what it wants."""
        if not self._waits(self.step, event):
            self._carry_out(self.node.step(event, self._network.now, self._network.rng))

    def _carry_out(self, instructions: list[NodeInstruction]) -> None:
        network = self._network
        for instruction in instructions:
            match instruction:
                case membership.ProbeInstruction():
                    self._probe(instruction)
                case membership.SyncInstruction():
                    self._sync(instruction)
                case PlacedInstruction():
                    self._watch(self, "viewed", b"")
                case SuspectsInstruction(numbers):
                    self._suspects = numbers
                case AwayInstruction():
                    self._was_away()
                case restoring.AskInstruction(ticket, member, request):
                    message = RestoreMessage(request)
                    deadline = self._settings.deadline
                    network.request(
                        self.process, member.address, message, deadline, self._replied, ticket
                    )
                case restoring.PullInstruction():
                    self._watch(self, "pulls", instruction.held.key)
                    network.at(network.now, self.process, self._pull, instruction)

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
        self._beat = now = self._network.now
        self.files.catalog.trust(now, now + (LONGEST_SLEEP + 1) * PERIOD)
        super()._tick(_)
        if self._network.rng.random() < _SCRUB * PERIOD:
            for key in list(self.store.objects):
                self.store.verify(key)
        self.step(_TICK)

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

    def _probed(self, call: NetworkCall) -> None:
        """Answer a probe, as the core does: at once, and with the age of the Python loop."""
        identity, message = self.swim.view.identity, call.message
        if message.wanted != self.member.number:
            call.answer(Gone())
            return
        if call.open:
            age = self._network.now - self._beat
            call.answer(AgedAnswer(identity, self.swim.news, age))
        if message.news or message.identity != identity:
            self.step(membership.ProbeHeardEvent(message.news, message.identity, message.sender))

    def _settled(self, answer: Any, ticket: int) -> None:
        if answer is None or isinstance(answer, Gone):
            self.step(membership.ProbeFailedEvent(ticket))
        else:
            self.step(
                membership.ProbeAnsweredEvent(ticket, answer.news, answer.identity, answer.age)
            )

    # ---- restoring -----------------------------------------------------------------------------

    def _replied(self, reply: Reply | None, ticket: int) -> None:
        if reply is None:
            self.step(restoring.RequestFailedEvent(ticket))
        else:
            self.step(restoring.RequestRepliedEvent(ticket, reply))

    def _pull(self, pull: restoring.PullInstruction) -> None:
        key = pull.held.key
        if self.store.was_dropped(key):
            self.step(restoring.RequestFailedEvent(pull.ticket))
        else:
            self._network.request(
                self.process,
                pull.source.address,
                GetMessage(key),
                self._settings.deadline,
                self._pull_begins,
                pull,
            )

    def _pull_begins(
        self, reply: FoundReply | Refusal | None, pull: restoring.PullInstruction
    ) -> None:
        if not isinstance(reply, FoundReply):
            self.step(restoring.RequestFailedEvent(pull.ticket))
            return
        held, network = reply.held, self._network
        try:
            writer = self.store.create(
                held.key,
                reply.content,
                held.size,
                pull.held.tier,
                held.copies,
                held.crc32c,
                reply.has_source,
                header=reply.header,
                least=held.least,
            )
        except HoldfastError as error:
            if isinstance(error, Full) and reply.has_source:
                self.store.let_go(msgspec.structs.replace(held, tier=pull.held.tier))
            self.step(restoring.RequestFailedEvent(pull.ticket))
            return
        end = network.now + network.travel() * held.size / PIECE
        network.at(end, self.process, self._pull_ends, (pull, writer, reply.content))

    def _pull_ends(self, pulled: tuple[restoring.PullInstruction, Writer, bytes]) -> None:
        pull, writer, content = pulled
        try:
            writer.commit(content)
        except HoldfastError:
            self.step(restoring.RequestFailedEvent(pull.ticket))
        else:
            self._watch(self, "pulled", pull.held.key)
            self.step(restoring.RestoredEvent(pull.ticket, pull.held.size))

    def _restore(self, call: NetworkCall) -> None:
        if not self._waits(self._restore, call):
            call.answer(self.node.answer(call.message.request))
            self.step(restoring.AskedEvent())

    # ---- objects -------------------------------------------------------------------------------

    def _fence(
        self,
        key: bytes,
        owners: list[int],
        copies: int,
        without: Sequence[int] = (),
        must_own: bool = False,
    ) -> None:
        if not owners:
            raise BadInput("no owners are named")
        if not self.fenced:
            return
        self._may_leave_out(key, without, copies)
        ours = self.store.owners(key, copies, without)
        if owners != ours or (must_own and self.member.number not in ours):
            raise StaleView("other members own the object")

    def _may_leave_out(self, key: bytes, without: Sequence[int], copies: int) -> None:
        space = fitting(self._settings.key_spaces, key)
        most = space.may_leave_out if space else 0
        if copies <= most:
            raise BadInput("lists that leave out owners would have none in common")
        if len(without) > most:
            raise BadInput("too many owners were skipped")
        if without and not self._suspects.issuperset(self.store.owning(key).intersection(without)):
            raise StaleView("the writer skipped an owner that is considered alive here")
        if without and len(self.store.owners(key, copies, without)) <= most:
            raise StaleView("too few owners are left")

    def _put(self, call: NetworkCall) -> None:
        message: PutMessage = call.message
        key, content = message.key, message.content
        copies = message.up_to or len(message.owners)
        try:
            self._fence(key, message.owners, copies, message.without, must_own=True)
            writer = self.store.create(
                key,
                content,
                message.size,
                message.tier,
                copies,
                header=message.header,
                least=1 if message.up_to else copies,
            )
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

    def _put_onward(self, reply: Any, pending: tuple[NetworkCall, Writer]) -> None:
        call, writer = pending
        if reply is DONE:
            self._commit(call, writer)
            return
        writer.abandon()
        if reply is None:
            reply = Refusal(DeadlineMissed("it does not answer"), call.message.onward[0])
        call.answer(reply)

    def _commit(self, call: NetworkCall, writer: Writer) -> None:
        try:
            writer.commit(call.message.content)
        except HoldfastError as error:
            self._refuse(call, error)
        else:
            call.answer(DONE)

    def _get(self, call: NetworkCall) -> None:
        try:
            stored = self.store.get(call.message.key)
        except HoldfastError as error:
            ours = call.message.wanted in (0, self.member.number)
            if ours or type(error) is not NotFound:
                self._refuse(call, error)
            else:
                self._refuse(call, Unavailable("this address now belongs to another member"))
        else:
            call.answer(FoundReply(stored.held, stored.content, stored.has_source, stored.header))

    # ---- files and copies ----------------------------------------------------------------------

    def _refresh(self, call: NetworkCall) -> None:
        if not self._waits(self._refresh, call):
            self.files.catalog.refresh(call.message.name)
            call.answer(DONE)

    def _was_away(self) -> None:
        """Files may have changed meanwhile, and nobody told us."""
        self.files.catalog.distrust()

    def _verify(self, call: NetworkCall) -> None:
        self.store.verify(call.message.key)
        call.answer(DONE)

    def _drop(self, call: NetworkCall) -> None:
        message: DropMessage = call.message
        try:
            stored = self.store.objects.get(message.key)
            copies = max(message.copies, stored.held.copies if stored else 0)
            self._fence(message.key, message.owners, copies)
            self.store.drop(message.key)
        except HoldfastError as error:
            self._refuse(call, error)
        else:
            call.answer(DONE)

    def _drop_below(self, call: NetworkCall) -> None:
        self.store.drop_below(call.message.prefix, call.message.version)
        call.answer(DONE)

    def _refuse(self, call: NetworkCall, error: HoldfastError) -> None:
        call.answer(Refusal(error, self.member.address))

    # ---- views ---------------------------------------------------------------------------------

    def _view(self, call: NetworkCall) -> None:
        if not self._waits(self._view, call):
            call.answer(self.swim.view.entries())

    def _exchange(self, call: NetworkCall) -> None:
        if not self._waits(self._exchange, call):
            super()._exchange(call)

    def _join(self, call: NetworkCall) -> None:
        if not self._waits(self._join, call):
            self.step(membership.ExchangedEvent(call.message.entries))
            call.answer(self.swim.view.entries())

    def _doubt(self, call: NetworkCall) -> None:
        if not self._waits(self._doubt, call):
            self.step(membership.MemberDoubtEvent(call.message.number))
            call.answer(DONE)
