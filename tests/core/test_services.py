"""Control calls: those who call without end leave the loop its turns."""

from __future__ import annotations

import os
import select
import threading
import time
from pathlib import Path

from holdfast import _core, errors
from holdfast.agent.services import Services
from holdfast.agent.trouble import Trouble

#: Against hangs.
PATIENCE = 20.0


class Slow:
    """Meanwhile the others call again."""

    name = "slow"

    def handle(self, method: str, message: bytes) -> bytes:
        time.sleep(0.005)
        return message


def test_calls_without_end_leave_the_loop_its_turns(tmp_path: Path) -> None:
    key = os.urandom(32)
    core = _core.Agent(key, str(tmp_path / "m"), 1 << 20, str(tmp_path / "d"), 1 << 20)
    socket = core.listen(f"unix:{tmp_path}/socket")
    core.start()
    client = _core.AgentClient(key)
    until = time.monotonic() + PATIENCE
    answered = 0

    def call() -> None:
        nonlocal answered
        try:
            while time.monotonic() < until:
                assert client.call(socket, "slow", "x", b"y", deadline=PATIENCE) == b"y"
                answered += 1
        except errors.Unavailable:
            pass  # the end of the agent

    services = Services(Trouble())
    services.register(Slow())
    callers = [threading.Thread(target=call) for _ in range(8)]
    for caller in callers:
        caller.start()
    try:
        for _ in range(3):
            assert select.select([core.fileno()], [], [], PATIENCE)[0]
            turn = time.monotonic() + 0.1
            services.answer_waiting(core, due=lambda turn=turn: time.monotonic() > turn)
            assert time.monotonic() < until, "the loop answered calls and did nothing else"
    finally:
        core.stop()
        for caller in callers:
            caller.join()
        client.close()
    assert answered > 8
