"""Simulated clients: the steps of objects/steps.py over a simulated network."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator
from random import Random
from typing import Any

import msgspec

from .._core import MOST_ASKED, crc32c
from ..client.routing import Routing
from ..errors import Damaged, DeadlineMissed, HoldfastError, StaleView, TryAgain, Unavailable
from ..membership.key_spaces import KeySpace
from ..membership.view import Entry, Member, State, View
from ..objects import steps
from .file_owner import Originals, content_of
from .messages import (
    DoubtMessage,
    DropBelowMessage,
    DropMessage,
    FoundReply,
    GetMessage,
    GetViewMessage,
    JoinMessage,
    PutMessage,
    ReadMessage,
    RefreshMessage,
    Refusal,
    VerifyMessage,
)
from .network import Network

#: A member that fails a client is reported within this time or not at all, in seconds.
_DOUBT_WITHIN = 0.6
#: Most members have heard of a suspicion after so many.
_HEARD_WITHIN = 2.0
#: So often a client asks the agent of its own node first, as one does that wants to map an object.
_LOCAL_FIRST = 0.2
#: With which the header of an object begins, behind its bytes.
HEADER = b"#"


class ClientSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What all clients of a simulated cluster have in common; times in seconds."""

    virtual_nodes: int = 8
    deadline: float = 4.0
    put_retry_for: float = 20.0
    avoid: float = 8.0
    key_spaces: tuple[KeySpace, ...] = ()
    originals: Originals = msgspec.field(default_factory=Originals)


class IdleFor(msgspec.Struct, frozen=True):
    """Nothing happens for some time."""

    seconds: float


class Send(msgspec.Struct, frozen=True):
    """A message whose answer is waited for."""

    address: str
    message: Any
    deadline: float


#: What a client does, one message after the other.
Doing = Generator[IdleFor | Send, Any, Any]


class Client:
    """One client, a process on a node."""

    steps_class = steps.ObjectSteps

    def __init__(
        self,
        network: Network,
        name: str,
        node: str,
        entries: list[Entry],
        settings: ClientSettings,
        local: Callable[[], Member | None],
    ) -> None:
        self.name = name
        self.node = node
        self.settings = settings
        self.process = network.start(f"{node}/{name}")
        self.routing = Routing(
            View(entries),
            settings.virtual_nodes,
            node,
            (node,),
            settings.avoid,
            settings.key_spaces,
        )
        self._network = network
        self._local = local
        self._rng = Random(network.rng.random())
        self._steps = self.steps_class(self.routing, self._clock, self._rng, settings.put_retry_for)

    def _clock(self) -> float:
        return self._network.now

    def put(self, key: bytes, version: bytes, size: int, copies: int, or_fewer: bool) -> Doing:
        """Store an object: some bytes that stand for all of them, and from `HEADER` on a header."""
        content, mark, header = version.partition(HEADER)

        def through(step: steps.PutStep, without: list[int]) -> Doing:
            chain = [member.address for member in step.chain]
            deadline = self.settings.deadline
            message = PutMessage(
                key=key,
                content=content,
                header=mark + header,
                size=size,
                tier=0,
                owners=step.owners,
                up_to=step.up_to,
                onward=chain[1:],
                deadline=deadline,
                without=without,
            )
            yield from self._ask(chain[0], message)

        def put(step: steps.PutStep) -> Doing:
            try:
                yield from through(step, [])
            except (DeadlineMissed, Unavailable) as error:
                failed = self.routing.member_at(error)
                around = None if failed is None else self._around(key, step, failed)
                if failed is None or around is None:
                    raise
                yield from self._doubt(failed)
                yield IdleFor(_HEARD_WITHIN)
                try:
                    yield from through(around, [failed.number])
                except TryAgain:
                    raise error from None

        return self._drive(self._steps.put(key, copies, or_fewer), put)

    def _around(self, key: bytes, step: steps.PutStep, failed: Member) -> steps.PutStep | None:
        """Return the same put without an owner that failed, if it may be left out."""
        under = self.routing.owners
        space = under.space(key)
        if space is None or not space.may_leave_out:
            return None
        owners = under.placement.owners(key, len(step.owners), [failed.number])
        if len(owners) < len(step.owners):
            return None
        chain = self.routing.chain([under.members[number] for number in owners])
        return steps.PutStep(chain, owners, step.up_to)

    def get(self, key: bytes) -> Doing:
        """Return an object as it was put, and how many copies its writer wanted."""

        def look(step: steps.LookStep | steps.VerifyStep) -> Doing:
            if isinstance(step, steps.VerifyStep):
                try:
                    yield from self._ask(step.member.address, VerifyMessage(key))
                except HoldfastError:
                    return None
                return None
            found: FoundReply = yield from self._look(step, key)
            version = found.content + found.header
            if crc32c(version) != found.held.crc32c:
                raise Damaged("the bytes do not match their checksum")
            return version, found.held.copies

        here = self._rng.random() < _LOCAL_FIRST
        return self._drive(self._steps.find(key, here), look)

    def read(self, name: bytes, size: int, copies: int) -> Doing:
        """Return the content of a file: from its owner, from who stands in, or from its source."""
        routing, stands_in = self.routing, False
        for member in routing.owners.of(name, MOST_ASKED):
            if routing.avoids(member, self._network.now):
                stands_in = True
                continue
            message = ReadMessage(name, size, copies, stands_in)
            try:
                found: FoundReply = yield from self._ask(member.address, message)
            except StaleView:
                yield from self._refresh()
                break
            except TryAgain:
                routing.avoid(member, self._network.now)
                stands_in = True
                continue
            if crc32c(found.content) == found.held.crc32c:
                return found.content
            with contextlib.suppress(HoldfastError):
                yield from self._ask(member.address, VerifyMessage(found.held.key))
            break
        originals = self.settings.originals
        return content_of(name, originals.version(name))

    def refresh(self, name: bytes) -> Doing:
        """Make all nodes look at a file again, one after the other; returns who was reached."""
        yield from self._refresh()
        reached = set()
        for member in self.routing.live:
            try:
                yield from self._ask(member.address, RefreshMessage(name))
            except HoldfastError:
                continue
            reached.add(member.number)
        return reached

    def drop(self, key: bytes) -> Doing:
        """Drop an object for ever."""
        _, copies = yield from self.get(key)

        def drop(step: steps.LookStep | steps.DropStep) -> Doing:
            if isinstance(step, steps.LookStep):
                found: FoundReply = yield from self._look(step, key)
                return found.held.copies
            yield from self._ask(step.member.address, DropMessage(key, step.owners, step.copies))

        yield from self._drive(self._steps.drop(key, copies), drop)

    def drop_below(self, prefix: bytes, version: int) -> Doing:
        """Drop all versions below one, for ever."""

        def drop(step: steps.DropBelowStep) -> Doing:
            yield from self._ask(step.member.address, DropBelowMessage(prefix, version))

        yield from self._drive(self._steps.drop_below(prefix), drop)

    def _look(self, step: steps.LookStep, key: bytes) -> Doing:
        return self._ask(step.member.address, GetMessage(key, step.member.number))

    def do(self, doing: Doing, then: Callable[[Any, HoldfastError | None], None]) -> None:
        """Carry out what a client does; `then` gets its result or its error."""
        network = self._network

        def go_on(reply: Any, _: object = None) -> None:
            try:
                what = doing.send(reply)
            except StopIteration as end:
                then(end.value, None)
            except HoldfastError as error:
                then(None, error)
            else:
                if isinstance(what, IdleFor):
                    network.at(network.now + what.seconds, self.process, go_on, None)
                else:
                    network.request(self.process, what.address, what.message, what.deadline, go_on)

        go_on(None)

    def _ask(self, address: str, message: Any, deadline: float = 0.0) -> Doing:
        reply = yield Send(address, message, deadline or self.settings.deadline)
        if reply is None:
            raise _error(DeadlineMissed("it does not answer"), address)
        if isinstance(reply, Refusal):
            raise _error(type(reply.error)(*reply.error.args), reply.at)
        return reply

    def _drive(self, wanted: steps.Steps, act: Callable[[Any], Doing]) -> Doing:
        """Carry out steps; `act` does those that are about the object."""
        try:
            step = next(wanted)
            while True:
                try:
                    result = yield from self._carry_out(step, act)
                except HoldfastError as error:
                    step = wanted.throw(error)
                else:
                    step = wanted.send(result)
        except StopIteration as end:
            return end.value

    def _carry_out(self, step: steps.Step, act: Callable[[Any], Doing]) -> Doing:
        match step:
            case steps.RefreshStep():
                return (yield from self._refresh())
            case steps.MergeStep(member):
                return (yield from self._merge(member))
            case steps.DoubtStep(member):
                yield from self._doubt(member)
            case steps.SleepStep(seconds):
                yield IdleFor(seconds)
            case _:
                return (yield from act(step))
        return None

    def _merge(self, member: Member) -> Doing:
        """Exchange views with a member; tells whether ours changed who lives."""
        try:
            message = JoinMessage(self.routing.entries())
            return self.routing.merge((yield from self._ask(member.address, message)))
        except HoldfastError:
            return False

    def _refresh(self) -> Doing:
        """Ask an agent for its view, the local one first; tells whether it changed who lives."""
        routing = self.routing
        for member in routing.informants(self._network.now):
            try:
                entries = yield from self._ask(member.address, GetViewMessage())
            except TryAgain:
                routing.avoid(member, self._network.now)
            else:
                changed = routing.merge(entries)
                if routing.agrees(entries):
                    return changed
                return (yield from self._merge(member)) or changed
        # Nobody whom we know answers: the session's directory tells who runs on this node now.
        here = self._local()
        return here is not None and routing.merge([Entry(here, 0, State.ALIVE)])

    def _doubt(self, member: Member) -> Doing:
        """Tell an agent, the local one if it is not the one, that a member failed us."""
        routing = self.routing
        for agent in sorted(routing.live, key=lambda other: other.node != self.node):
            if agent.number != member.number and not routing.avoids(agent, self._network.now):
                try:
                    yield from self._ask(agent.address, DoubtMessage(member.number), _DOUBT_WITHIN)
                except HoldfastError:
                    return
                return


def _error(error: HoldfastError, at: str) -> HoldfastError:
    error.at = at  # type: ignore[attr-defined]
    return error
