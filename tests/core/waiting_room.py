"""An agent whose one service keeps its callers waiting; beside test_parked.py, which starts it.

usage: waiting_room.py DIRECTORY KEY
"""

from __future__ import annotations

import select
import sys
import time

from holdfast import _core, errors
from holdfast.agent.parked import Parked
from holdfast.agent.services import Services
from holdfast.agent.trouble import Trouble
from holdfast.config import load


class Room:
    """`enter` and wait until somebody calls `open`; `sleep` holds up the loop."""

    name = "room"

    def __init__(self) -> None:
        self._inside: list[tuple[bytes, Parked]] = []
        self._left = 0

    def handle(self, method: str, message: bytes) -> bytes | Parked:
        if method == "enter":
            parked = Parked(on_cancel=self._leave)
            self._inside.append((message, parked))
            return parked
        if method == "open":
            waiting, self._inside = self._inside, []
            for name, parked in reversed(waiting):
                if name == b"unwelcome":
                    parked.fail(errors.NotFound("there is no such guest \udcff"))
                else:
                    parked.answer(b"welcome " + name)
        elif method == "count":
            return b"%d %d" % (len(self._inside), self._left)
        elif method == "sleep":
            time.sleep(float(message))
        return b""

    def _leave(self) -> None:
        self._left += 1
        self._inside = [one for one in self._inside if not one[1].cancelled]


def main() -> None:
    directory, key = sys.argv[1:]
    core = _core.Agent(
        bytes.fromhex(key),
        memory_dir=f"{directory}/m",
        memory_capacity=1 << 20,
        disk_dir=f"{directory}/d",
        disk_capacity=1 << 20,
    )
    print(core.listen(f"unix:{directory}/socket"), core.listen("tcp:127.0.0.1:0"), flush=True)
    core.start()
    services = Services(core, Trouble(), load().config)
    services.add(Room())
    poll = select.poll()
    poll.register(core.fileno(), select.POLLIN)
    poll.register(sys.stdin.fileno(), select.POLLIN)
    ready: set[int] = set()
    while sys.stdin.fileno() not in ready:
        core.beat()
        ready = {fd for fd, _ in poll.poll(1000 * min(0.05, services.until_tick()))}
        services.answer_waiting(due=lambda: False)
        services.tick()
    core.stop()


main()
