"""Ten thousand nodes in one process: their indexes are the core's, and all see one placement."""

from __future__ import annotations

import gc
import random
import time
from collections import deque
from collections.abc import Iterator
from typing import cast

import pytest

from holdfast import _core
from holdfast.agent.holdings import CoreHoldings
from holdfast.membership.owners import Owners
from holdfast.membership.view import Entry, Member, State, View
from holdfast.restoration.events import (
    AskedEvent,
    AskInstruction,
    PullInstruction,
    RequestRepliedEvent,
    RestorationEvent,
    RestorationInstruction,
    RestoredEvent,
    ViewEvent,
)
from holdfast.restoration.restorer import Restorer

NODES = 10_000
KEYS_EACH = 100
COPIES = 2
DEAD = 3
VIRTUAL_NODES = 8
SIZE = 10

Pairs = set[frozenset[int]]


class Node:
    """One member: its index, and what restores it once somebody asks or a co-owner died."""

    def __init__(self, member: Member) -> None:
        self.member = member
        self.index = _core.ObjectIndex()
        self.restorer: Restorer | None = None

    def put(self, key: bytes) -> None:
        self.index.reserve(key, SIZE)
        self.index.publish(key, SIZE, 0, tier=_core.Tier.MEMORY, copies=COPIES, has_source=False)


class Nodes:
    """All of them; messages and copies arrive at once."""

    def __init__(self) -> None:
        self.rng = random.Random(1)
        members = [
            Member(
                node=f"n{i:05d}",
                number=self.rng.getrandbits(63),
                started=i,
                address=f"a{i}",
                socket="",
                pid=1,
            )
            for i in range(NODES)
        ]
        self.views = [View(Entry(member, 0, State.ALIVE) for member in members)]
        self.owners = [Owners(self.views[0], VIRTUAL_NODES)]
        self.all = {member.number: Node(member) for member in members}
        self.pulled: list[tuple[int, bytes]] = []
        self._queue: deque[tuple[Node, RestorationInstruction]] = deque()
        self.place()

    def place(self) -> None:
        for number, node in self.all.items():
            node.index.place(self.owners[-1].placement, number)

    def die(self, dead: list[int]) -> None:
        """Let members die, and all others know it."""
        view = View(base=self.views[0])
        view.merge(Entry(self.all.pop(number).member, 0, State.DEAD) for number in dead)
        self.views.append(view)
        self.owners.append(Owners(view, VIRTUAL_NODES))
        self.place()

    def unequal(self) -> Pairs:
        """Pairs whose digests of what both own differ."""
        surveys = {number: node.index.survey() for number, node in self.all.items()}
        return {
            frozenset((one, other))
            for one, survey in surveys.items()
            for other, digest in survey.items()
            if surveys[other].get(one) != digest
        }

    def restore(self, numbers: set[int]) -> None:
        """Let these members compare with all their co-owners; until nothing is left to do."""
        for number in sorted(numbers):
            node = self.all[number]
            for instruction in self._start(node, since=0):
                self._queue.append((node, instruction))
        while self._queue:
            self._carry_out(*self._queue.popleft())

    def _start(self, node: Node, since: int) -> list[RestorationInstruction]:
        """Start the restoring of a member that has seen the views since one of them."""
        holdings = CoreHoldings(cast(_core.Agent, node.index))
        node.restorer = Restorer(node.member.number, holdings, 1e12, 5.0)
        for owners, view in zip(self.owners[since:], self.views[since:], strict=True):
            event = ViewEvent(owners, view.live(), view.lost())
            wanted = node.restorer.step(event, 0.0, self.rng)
        return wanted

    def _step(self, node: Node, event: RestorationEvent) -> None:
        assert node.restorer is not None
        for instruction in node.restorer.step(event, 0.0, self.rng):
            self._queue.append((node, instruction))

    def _carry_out(self, node: Node, instruction: RestorationInstruction) -> None:
        if isinstance(instruction, AskInstruction):
            other = self.all[instruction.member.number]
            if other.restorer is None:  # it answers, and fetches; it does not ask by itself
                self._start(other, since=-1)
            assert other.restorer is not None
            reply = other.restorer.answer(instruction.request)
            self._step(other, AskedEvent())
            self._step(node, RequestRepliedEvent(instruction.ticket, reply))
        else:
            assert isinstance(instruction, PullInstruction)
            key = instruction.held.key
            assert self.all[instruction.source.number].index.find(key) is not None
            node.put(key)
            self.pulled.append((node.member.number, key))
            self._step(node, RestoredEvent(instruction.ticket, SIZE))


@pytest.fixture
def nodes() -> Iterator[Nodes]:
    gc.disable()  # nothing here is in cycles, and it would be gone through over and over
    try:
        yield Nodes()
    finally:
        gc.enable()


@pytest.mark.timeout(40)  # 4 s of a processor, which others may want, too
def test_ten_thousand_nodes_restore_what_three_of_them_held(nodes: Nodes) -> None:
    begun = time.perf_counter(), time.process_time()
    keys_of: dict[int, list[bytes]] = {number: [] for number in nodes.all}
    for number in range(NODES * KEYS_EACH // COPIES):
        key = b"key%d" % number
        for owner in nodes.owners[0].placement.owners(key, COPIES):
            keys_of[owner].append(key)
    for owner, keys in keys_of.items():  # one after the other: each fits the processor's cache
        for key in keys:
            nodes.all[owner].put(key)
    assert not nodes.unequal()

    dead = nodes.rng.sample(sorted(nodes.all), DEAD)
    at_risk = {key for number in dead for key in keys_of[number]}
    sharing = {other for number in dead for other in nodes.all[number].index.survey()}.difference(
        dead
    )
    nodes.die(dead)

    # Where an owner lacks an object, its digest with the one that has it differs; nowhere else.
    lacking, differing = [], set()
    for key in at_risk:
        owners = nodes.owners[1].placement.owners(key, COPIES)
        have = [owner for owner in owners if nodes.all[owner].index.find(key) is not None]
        lacks = [owner for owner in owners if owner not in have]
        lacking += [(owner, key) for owner in lacks if have]
        differing |= {frozenset((one, owner)) for one in have for owner in lacks}
    assert len(lacking) > DEAD * KEYS_EACH / 2
    assert nodes.unequal() == differing

    nodes.restore(sharing)
    assert sorted(nodes.pulled) == sorted(lacking)
    assert not nodes.unequal()
    assert not any(node.index.strays(1, b"") for node in nodes.all.values())
    wall, busy = time.perf_counter() - begun[0], time.process_time() - begun[1]
    print(f"{NODES} nodes with {KEYS_EACH} keys each: {wall:.1f} s, {busy:.1f} s of a processor")
