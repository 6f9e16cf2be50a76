"""A node that a refresh does not reach is told by another one, and if that is silent by a third."""

from __future__ import annotations

import select
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import msgspec
import pytest
from support.cores import core_in

from holdfast import _core
from holdfast.client.connection import Connection
from holdfast.files import refresh
from holdfast.membership.view import Member

KEY = bytes(range(32))
NONE_STUCK = msgspec.msgpack.encode([])


class Agent:
    """The native half of an agent; it is told of a refresh, and passes it on or falls silent."""

    def __init__(self, where: Path, number: int, silent: bool) -> None:
        where.mkdir()
        self.core = core_in(where, KEY)
        self.asked: list[str] = []
        self._silent = silent
        self._stopped = False
        address = self.core.listen("tcp:127.0.0.1:0")
        self.member = member(number, address)
        self.core.set_self(number)
        self.core.start()
        self._thread = threading.Thread(target=self._answer)
        self._thread.start()

    def _answer(self) -> None:
        while not self._stopped:
            self.core.beat()
            select.select([self.core.fileno()], [], [], 0.05)
            while (call := self.core.next_call()) is not None:
                self.asked.append(call.method)
                if self._silent and call.method == "pass_on":
                    return
                self.core.answer(call.id, NONE_STUCK)

    def close(self) -> None:
        self._stopped = True
        self._thread.join()
        self.core.stop()


def member(number: int, address: str) -> Member:
    return Member(
        node=f"node-{number}", number=number, started=1, address=address, socket="", pid=1
    )


class Few:
    """What a refresh needs of a connection: some members, one of whom cannot be reached."""

    deadline = 0.5

    def __init__(self, live: list[Member]) -> None:
        self.client = _core.AgentClient(KEY)
        self.routing = self
        self.live = live

    def refresh(self) -> bool:
        return False

    def address(self, other: Member) -> str:
        return other.address


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[list[Agent]]:
    made = [Agent(tmp_path / str(number), number, silent=number == 0) for number in range(2)]
    yield made
    while made:
        made.pop().close()


def test_a_messenger_that_falls_silent_is_not_waited_for(
    agents: list[Agent], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refresh, "MOUNTS_WITHIN", 1000.0)  # it would have so long to answer
    monkeypatch.setattr(refresh.random, "sample", lambda among, most: among[:most])
    few = Few([*(agent.member for agent in agents), member(2, "tcp:127.0.0.1:1")])
    done = refresh.refresh(cast(Connection, few), [b"/somewhere"])
    few.client.close()
    assert (done.nodes, done.missed) == (["node-0", "node-1", "node-2"], [])
    assert [agent.asked for agent in agents] == [["refresh", "pass_on"]] * 2
