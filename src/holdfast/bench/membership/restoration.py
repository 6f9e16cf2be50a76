"""Two gigabytes with two copies on eight agents, one of which dies: until all copies are back."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from statistics import median

import msgspec

from ...errors import HoldfastError
from ...job import Job, LocalCluster, local_cluster
from ...restoration.restorer import RestoreStatus
from ...session import session as sessions
from ...session.tiers import LARGE
from .. import programs
from ..figures import Figure, at_least, at_most, shown
from .watch import Watch, wait_for

_NODES = 8
_OBJECT = 4_000_000
_OBJECTS = 250  # with two copies: 2 GB
_ROUNDS = 7
_VICTIM = 3


class _Round(msgspec.Struct, frozen=True):
    restored: float  # seconds, from the first agent that knew of the death
    lost: int  # bytes
    moved: int  # bytes
    before: float  # gets per second
    meanwhile: float


def run() -> list[Figure]:
    """Kill an agent that holds its share, while a client goes on reading."""
    _touch_memory()
    core, other = programs.two_cores()
    rounds, copying = [], []
    with programs.server(core, "blocking_server", "tcp:127.0.0.1:0", _OBJECT) as address:
        for _ in range(_ROUNDS):
            raw = programs.client(other, "raw_client", address, _OBJECT, 1, 500).per_second
            one = _round()
            rounds.append(one)
            copying.append(one.restored / (one.lost / (raw * _OBJECT)))
    return [
        at_most(
            f"copies restored after one of {_NODES} agents died, 2 GB with 2 copies",
            median(copying),
            3,
            "x the time",
            "copying the lost bytes once over raw TCP",
        ),
        at_most(
            "bytes moved to restore them",
            median(one.moved / one.lost for one in rounds),
            1.05,
            "x",
            "bytes lost",
        ),
        at_least(
            "gets meanwhile",
            median(one.meanwhile / one.before for one in rounds),
            0.7,
            "of their rate",
            "gets before",
        ),
        shown(
            "gets that did not happen because of it: those of",
            median((1 - one.meanwhile / one.before) * one.restored for one in rounds),
            "s",
        ),
        shown("lost bytes restored at", median(o.lost / o.restored for o in rounds) / 1e6, "MB/s"),
    ]


def _touch_memory() -> None:
    """Use as much memory as a round does.

    A virtual machine gets pages from its host when it first writes to them, which takes ten times
    as long as the copy; whether some are left from before says nothing about us.
    """
    piece = bytes(_OBJECT)
    with tempfile.TemporaryFile(dir="/dev/shm") as file:
        for _ in range(3 * _OBJECTS):
            file.write(piece)


def _round() -> _Round:
    with local_cluster(nodes=_NODES, memory="1 GiB", disk="64 MiB") as cluster:
        job = cluster.connect()
        data = os.urandom(_OBJECT)
        for number in range(_OBJECTS):
            job.objects.put(f"object-{number}", data, copies=2)
        gets = _Gets(job)
        try:
            return _kill(cluster, gets)
        finally:
            gets.close()


def _kill(cluster: LocalCluster, gets: _Gets) -> _Round:
    watch = Watch(cluster)
    victim, *others = watch.members[_VICTIM:] + watch.members[:_VICTIM]
    stores = [
        directory
        for agent in sessions.agents(cluster.directory)
        if agent.member != victim
        for directory in agent.tiers.memory_dirs()
    ]
    lost = watch.status(victim).tiers["memory"]["bytes"]
    before = gets.rate(2.0)
    cluster.kill(_VICTIM)
    until = time.perf_counter() + 60
    wait_for(lambda: not watch.view(others[0]).is_live(victim), until)
    start = gets.mark()

    # Seen from outside: to ask seven agents all the time would cost a third of a core.
    wait_for(lambda: sum(map(_held, stores)) == 2 * _OBJECTS, until)
    meanwhile, seconds = gets.since(start)
    states = [watch.status(member) for member in others]
    if sum(status.tiers["memory"]["objects"] for status in states) != 2 * _OBJECTS:
        raise HoldfastError("a restored copy is missing; is memory short?")
    moved = sum(status.of("restoring", RestoreStatus).restored_bytes for status in states)
    return _Round(seconds, lost, moved, before, meanwhile)


def _held(directory: str) -> int:
    """Count the objects there; what is still being received does not count."""
    return sum(name != LARGE and not name.startswith("new-") for name in os.listdir(directory))


class _Gets:
    """Gets one object after the other in a thread, and counts them."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._done = 0
        self._end = False
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        out = bytearray(_OBJECT)
        while not self._end:
            self._job.objects.get_into(f"object-{self._done * 37 % _OBJECTS}", out)
            self._done += 1

    def mark(self) -> tuple[int, float]:
        """Return how many are done, and when."""
        return self._done, time.perf_counter()

    def since(self, mark: tuple[int, float]) -> tuple[float, float]:
        """Return the gets per second since then, and the seconds."""
        seconds = time.perf_counter() - mark[1]
        return (self._done - mark[0]) / seconds, seconds

    def rate(self, seconds: float) -> float:
        """Return the gets per second over the next seconds."""
        mark = self.mark()
        time.sleep(seconds)
        return self.since(mark)[0]

    def close(self) -> None:
        """End the thread."""
        self._end = True
        self._thread.join()
