"""One client process of the comparison with Redis.

Reads a `GetterTask` from its standard input and then, line by line, for how many seconds to get
that object; answers each line with the number of gets per second.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from time import perf_counter
from typing import Literal

import msgspec

from ..._core import AgentClient


class GetterTask(msgspec.Struct, frozen=True):
    """What to get, and where."""

    kind: Literal["holdfast", "redis"]
    address: str  # of Redis: its port on this machine
    key: str
    job_key: str = ""  # hexadecimal


def _get_by(task: GetterTask) -> Callable[[], object]:
    if task.kind == "redis":
        from redis import Redis  # noqa: PLC0415 - an optional package

        redis = Redis(port=int(task.address))
        return lambda: redis.get(task.key)
    client, name = AgentClient(bytes.fromhex(task.job_key)), task.key.encode()
    return lambda: client.get(task.address, name)


def _rate(get: Callable[[], object], seconds: float) -> float:
    count, start = 0, perf_counter()
    now = start
    while now - start < seconds:
        get()
        count += 1
        now = perf_counter()
    return count / (now - start)


def main() -> None:
    """Serve until standard input ends."""
    get = _get_by(msgspec.json.decode(sys.stdin.readline(), type=GetterTask))
    print(_rate(get, 0.05), flush=True)  # the warm-up, and the sign that it is ready
    for line in sys.stdin:
        print(_rate(get, float(line)), flush=True)
