"""Some members with stores of their own, whose restoring talks without a network in between."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterable, Sequence

from holdfast.errors import Full
from holdfast.membership.key_spaces import KeySpace
from holdfast.membership.owners import Owners
from holdfast.membership.view import COMPUTE, SPARE, Entry, Member, State, View
from holdfast.placement.windows import Roster
from holdfast.restoration.events import (
    AskInstruction,
    MergeInstruction,
    RequestFailedEvent,
    RequestRepliedEvent,
    RestorationEvent,
    RestorationInstruction,
    RestorationTickEvent,
    RestoredEvent,
    RestoreInstruction,
    ViewEvent,
)
from holdfast.restoration.holdings import ObjectSummary
from holdfast.restoration.messages import Request
from holdfast.restoration.restorer import Restorer
from holdfast.simulation.store import Store

PERIOD = 0.25


class One:
    """One member."""

    def __init__(
        self,
        name: str,
        number: int,
        rate: float,
        partition_wait: float,
        role: str,
        started: int = 0,
    ) -> None:
        self.member = Member(
            node=name,
            number=number,
            started=started,
            address=name,
            socket=name,
            pid=1,
            role=role,
        )
        self.removed: list[tuple[str, bytes]] = []
        self.store = Store(number, 10**9, self._watch)
        self.restorer = Restorer(number, self.store, rate, partition_wait)
        self.view = View()
        self.rosters: tuple[Roster, ...] = ()
        self.owners: Owners | None = None

    def _watch(self, what: str, key: bytes) -> None:
        if what != "stored":
            self.removed.append((what, key))


class Some:
    """Members n0, n1, ... that all see one another alive at first; the last are `spares`."""

    def __init__(
        self,
        nodes: int,
        rate: float = 1e12,
        partition_wait: float = 5.0,
        key_spaces: Sequence[KeySpace] = (),
        spares: int = 0,
    ) -> None:
        self.rng = random.Random(nodes)
        self._limits = rate, partition_wait
        self.now = 100.0
        self.key_spaces = key_spaces
        roles = [COMPUTE] * (nodes - spares) + [SPARE] * spares
        self.members = {
            f"n{i}": One(f"n{i}", 1000 + i, rate, partition_wait, role)
            for i, role in enumerate(roles)
        }
        self.by_number = {one.member.number: one for one in self.members.values()}
        self.dead: set[str] = set()
        self.queue: deque[tuple[One, RestorationInstruction]] = deque()
        self.asked: list[Request] = []
        self.pulls: list[tuple[str, bytes]] = []  # that brought something
        self.merges: list[tuple[str, str]] = []
        #: Called before an instruction is carried out; if it returns False it fails.
        self.reaches: Callable[[One, Member], bool] = lambda _sender, _member: True
        #: Answers to such requests are kept until `release`.
        self.keeps: Callable[[One, Request], bool] = lambda _sender, _request: False
        self._kept: list[tuple[One, RestorationEvent]] = []
        self.see(self.members)

    def see(self, live: Iterable[str], by: Iterable[str] | None = None) -> None:
        """Give members, all if none are named, the view in which just `live` live."""
        alive = set(live)
        for name in self.members if by is None else by:
            entries = [
                Entry(one.member, 0, State.ALIVE if node in alive else State.DEAD)
                for node, one in self.members.items()
            ]
            one = self.members[name]
            one.view = View(entries)
            self._place(one)

    def _place(self, one: One) -> None:
        one.rosters = one.restorer.rosters
        one.owners = Owners(one.view, 20, self.key_spaces, one.rosters)
        one.store.place(one.owners)
        self.step(one, ViewEvent(one.owners, one.view.live(), one.view.lost()))

    def die(self, *names: str) -> None:
        """Let members die, and the others know it."""
        self.dead.update(names)
        left = [name for name in self.members if name not in self.dead]
        self.see(left, left)

    def restart(self, name: str) -> None:
        """Let a member that died come back as another one, with nothing."""
        old = self.members[name].member
        one = self.members[name] = One(
            name, old.number + 100, *self._limits, old.role, old.started + 1
        )
        del self.by_number[old.number]
        self.by_number[one.member.number] = one
        self.dead.discard(name)
        self.see(self.members)

    def put(
        self,
        name: str,
        key: bytes,
        content: bytes = b"",
        size: int = 10,
        copies: int = 2,
        header: bytes = b"",
        least: int | None = None,
    ) -> None:
        """Store an object at one member."""
        store = self.members[name].store
        writer = store.create(key, content, size, 0, copies, header=header, least=least)
        writer.commit(content)

    def put_at_owners(self, key: bytes, size: int = 10, copies: int = 2) -> list[str]:
        owners = self.owners(key, copies)
        for name in owners:
            self.put(name, key, key, size, copies)
        return owners

    def owners(self, key: bytes, copies: int = 2) -> list[str]:
        living = next(one for name, one in self.members.items() if name not in self.dead)
        assert living.owners is not None
        return [member.node for member in living.owners.of(key, copies)]

    def holders(self, key: bytes) -> set[str]:
        return {
            name
            for name, one in self.members.items()
            if name not in self.dead and key in one.store.objects
        }

    def step(self, one: One, event: RestorationEvent) -> None:
        for instruction in one.restorer.step(event, self.now, self.rng):
            self.queue.append((one, instruction))
        self._heard(one)

    def _heard(self, one: One) -> None:
        if one.restorer.rosters is not one.rosters:
            self._place(one)

    def tick(self, periods: int = 1) -> None:
        for _ in range(periods):
            self.now += PERIOD
            for name, one in self.members.items():
                if name not in self.dead:
                    self.step(one, RestorationTickEvent())
            self.settle()

    def settle(self) -> None:
        """Carry out instructions until there are no more."""
        while self.queue:
            self.carry_out(*self.queue.popleft())

    def release(self) -> int:
        """Let the answers arrive that were kept; return how many."""
        kept, self._kept = self._kept, []
        for one, event in kept:
            self.step(one, event)
        self.settle()
        return len(kept)

    def carry_out(self, one: One, instruction: RestorationInstruction) -> None:
        if isinstance(instruction, MergeInstruction):
            self.merges.append((one.member.node, instruction.member.node))
        elif isinstance(instruction, AskInstruction):
            self.asked.append(instruction.request)
            event: RestorationEvent = RequestFailedEvent(instruction.ticket)
            if self._reaches(one, instruction.member):
                other = self.by_number[instruction.member.number]
                event = RequestRepliedEvent(
                    instruction.ticket, other.restorer.answer(instruction.request)
                )
                self._heard(other)
            if self.keeps(one, instruction.request):
                self._kept.append((one, event))
            else:
                self.step(one, event)
        else:
            self.step(one, self._pull(one, instruction))

    def _pull(self, one: One, pull: RestoreInstruction) -> RestorationEvent:
        key = pull.held.key
        source = self.by_number[pull.source.number].store.objects.get(key)
        if source is None or not self._reaches(one, pull.source) or one.store.was_dropped(key):
            return RequestFailedEvent(pull.ticket)
        self.pulls.append((one.member.node, key))
        held: ObjectSummary = source.held
        try:
            writer = one.store.create(
                key,
                source.content,
                held.size,
                held.tier,
                held.copies,
                header=source.header,
                least=held.least,
            )
        except Full:
            return RequestFailedEvent(pull.ticket)
        writer.commit(source.content)
        return RestoredEvent(pull.ticket, held.size)

    def _reaches(self, one: One, member: Member) -> bool:
        return member.node not in self.dead and self.reaches(one, member)
