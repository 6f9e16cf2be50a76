"""The driver of the node machine: what is to be restored in a way that no agent knows."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.cores import core_in

from holdfast.agent.node_driver import NodeDriver
from holdfast.agent.services import Services
from holdfast.agent.shell import Shell
from holdfast.agent.story import Story
from holdfast.config import load
from holdfast.membership import events as swim
from holdfast.membership.view import Member
from holdfast.restoration.events import RequestFailedEvent, RestoreInstruction
from holdfast.restoration.holdings import ObjectSummary


class Driven:
    """A driver whose core hears of nobody."""

    def __init__(self, place: Path) -> None:
        self.me = Member(node="n", number=1, started=0, address="tcp:n", socket="unix:n", pid=1)
        self.core = core_in(place, bytes(32))
        self.shell = Shell(self.core, self.me, load().config, Story("n", lambda: (0.0, 0.0)))
        self.driver = NodeDriver(self.shell, Services(self.core, self.shell.trouble, load().config))


@pytest.fixture
def one(tmp_path: Path) -> Iterator[Driven]:
    driven = Driven(tmp_path)
    yield driven
    driven.core.stop()
    vars(driven).clear()  # descriptors go with the core, also when a failed test holds on to this
    gc.collect()


class RebuildInstruction(RestoreInstruction, frozen=True):
    """Not a pull."""


def test_what_nobody_can_carry_out_fails_loudly(
    one: Driven, capfd: pytest.CaptureFixture[str]
) -> None:
    events: list[object] = []
    me = one.me

    def step(event: object, *_: object) -> list[RestoreInstruction]:
        """Want the next one as soon as one has failed."""
        events.append(event)
        held = ObjectSummary(key=b"key", size=10, crc32c=7, tier=0, copies=2)
        return [RebuildInstruction(len(events), held, me)] if len(events) < 3000 else []

    one.driver.machine.step = step  # type: ignore[method-assign,assignment]
    one.driver.leave()
    assert events == [swim.LeaveEvent()]  # and not within the step that wanted it
    one.shell.take_events()
    assert events[1:] == [RequestFailedEvent(ticket) for ticket in range(1, 3000)]
    assert not one.shell.waits
    assert one.shell.trouble.counters["failures"] == 2999
    assert "no agent can carry out a RebuildInstruction for b'key'" in capfd.readouterr().err
