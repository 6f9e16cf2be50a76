"""Services of an agent: calls, ticks, views and statuses, each to those that have that power."""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec
import pytest
from support.cores import core_in

from holdfast import _core, errors
from holdfast.agent.metrics import Family, families, render
from holdfast.agent.services import Services
from holdfast.agent.trouble import Trouble
from holdfast.client.messages import AgentStatus
from holdfast.config import Config, load
from holdfast.membership.owners import Owners
from holdfast.membership.view import Entry, Member, State, View

#: Against hangs.
WITHIN = 20.0


class Slow:
    """Meanwhile the others call again."""

    name = "slow"

    def handle(self, method: str, message: bytes) -> bytes:
        time.sleep(0.005)
        return message


def test_calls_without_end_leave_the_loop_its_turns(tmp_path: Path) -> None:
    key = os.urandom(32)
    core = core_in(tmp_path, key)
    socket = core.listen(f"unix:{tmp_path}/socket")
    core.start()
    client = _core.AgentClient(key)
    until = time.monotonic() + WITHIN
    answered = 0

    def call() -> None:
        nonlocal answered
        try:
            while time.monotonic() < until:
                assert client.call(socket, "slow", "x", b"y", deadline=WITHIN) == b"y"
                answered += 1
        except errors.Unavailable:
            pass  # the end of the agent

    services = Services(core, Trouble(), load().config)
    services.add(Slow())
    callers = [threading.Thread(target=call) for _ in range(8)]
    for caller in callers:
        caller.start()
    try:
        for _ in range(3):
            assert select.select([core.fileno()], [], [], WITHIN)[0]
            turn = time.monotonic() + 0.1
            services.answer_waiting(due=lambda turn=turn: time.monotonic() > turn)
            assert time.monotonic() < until, "the loop answered calls and did nothing else"
    finally:
        core.stop()
        for caller in callers:
            caller.join()
        client.close()
    assert answered > 8


# ---- powers ---------------------------------------------------------------------------------


class Plain:
    """Can do nothing but answer."""

    name = "plain"

    def handle(self, method: str, message: bytes) -> bytes:
        return b""


class Told(msgspec.Struct, frozen=True):
    """What Able reports."""

    ticks: int
    names: tuple[str, ...]
    word: str


class Able(Plain):
    """Has every power."""

    name = "able"

    def __init__(self, fails: bool = False) -> None:
        self.due = 0.0
        self.configs: list[Config] = []
        self.ticks = 0
        self.fails = fails
        self.owners: list[int] = []
        self.away = 0

    def configure(self, config: Config) -> None:
        assert (self.ticks, self.owners, self.away) == (0, [], 0)
        self.configs.append(config)

    def tick(self, now: float) -> None:
        self.ticks += 1
        if self.fails:
            raise RuntimeError("no tick today")
        self.due = now + 3600

    def viewed(self, owners: Owners, live: Sequence[Member], lost: Sequence[Member]) -> None:
        self.owners = sorted(owners.members)

    def was_away(self) -> None:
        self.away += 1

    def status(self) -> Told:
        return Told(self.ticks, ("a", "b"), "text")

    def metrics(self) -> Iterable[Family]:
        return families("able_", self.status(), counters=("ticks",))


class Failing(Able):
    name = "failing"


@pytest.fixture
def services(tmp_path: Path) -> Iterator[Services]:
    core = core_in(tmp_path, bytes(32))
    made = Services(core, Trouble(), load().config)
    yield made
    core.stop()
    del core, made._core  # its descriptors go with it


def test_each_service_is_told_what_it_is_able_to_hear(services: Services) -> None:
    able = Able()
    services.add(Plain())
    services.add(able)
    view = View(
        Entry(
            Member(node="n", number=7, started=0, address="tcp:n", socket="unix:n", pid=1),
            0,
            State.ALIVE,
        )
        for _ in "n"
    )
    services.viewed(Owners(view, 8), view.live(), view.lost())
    services.was_away()
    services.tick()
    services.tick()  # not due any more
    assert able.configs == [load().config]
    assert (able.owners, able.away, able.ticks) == ([7], 1, 1)
    assert 3500 < services.until_tick() <= 3600
    assert services.statuses() == {"able": Told(1, ("a", "b"), "text")}
    text = render("node-0", services.metrics())
    assert 'holdfast_able_ticks_total{node="node-0"} 1' in text
    assert 'holdfast_able_names{node="node-0"} 2' in text
    assert "word" not in text


def test_counters_of_services_are_among_those_of_the_agent() -> None:
    told = {"able": Told(1, ("a", "b"), "text"), "counting": {"counters": {"able_ticks": 1}}}
    services = {name: msgspec.Raw(msgspec.msgpack.encode(one)) for name, one in told.items()}
    services["nameless"] = msgspec.Raw(msgspec.msgpack.encode([1]))
    status = AgentStatus(
        node="node-0", number=1, pid=1, tiers={}, counters={"puts": 2}, services=services
    )
    assert status.counted() == {"puts": 2, "able_ticks": 1}
    assert status.counters == {"puts": 2}
    assert status.of("able", Told) == told["able"]


def test_a_tick_that_fails_is_tried_again_later_and_holds_up_nobody(services: Services) -> None:
    failing, able = Failing(fails=True), Able()
    services.add(failing)
    services.add(able)
    for _ in range(3):
        services.tick()
    assert (failing.ticks, able.ticks) == (1, 1)
    assert 0 < services.until_tick() <= 1.0
