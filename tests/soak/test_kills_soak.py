"""The demo's data set is read without end while agents are killed: no read waits long."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import epoch_reader
import msgspec
import pytest
from epoch_reader import LONG, NOTED, Slow, Total
from pauses import Pauses
from support.waits import wait_for

import holdfast
from holdfast.cli.demo import epochs
from holdfast.cli.demo.epochs import NODES, SETTINGS, DemoDataset
from holdfast.client import stories
from holdfast.client.events import Event, line
from holdfast.testing import countfs
from holdfast.testing.countfs import CountingFS

KILLS = int(os.environ.get("SOAK_KILLS", "1000"))
_END_WITHIN = 60.0
#: A read that waited is judged soon: what was told longer ago is not asked for.
_STORIES = 32


class Reader:
    """A process of a node, and what it tells."""

    def __init__(
        self, cluster: holdfast.LocalCluster, root: Path, rank: int, slow: deque[Slow]
    ) -> None:
        self.total: Total | None = None
        self._slow = slow
        under = cluster.storage.under(rank) if cluster.storage else ()
        arguments = (cluster.directory, cluster.nodes[rank].name, rank, root)
        self._process = subprocess.Popen(
            [*under, sys.executable, epoch_reader.__file__, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._listener = threading.Thread(target=self._listen)
        self._listener.start()

    @property
    def runs(self) -> bool:
        """Whether it still reads; one that ended has said why on its standard error."""
        return self._process.poll() is None

    def end(self) -> None:
        """Let it tell how many reads there were."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def close(self) -> None:
        """Wait for its end."""
        try:
            self.end()
            self._process.wait(_END_WITHIN)
        finally:
            self._process.kill()
            self._process.wait()
            self._listener.join()
            assert self._process.stdout is not None
            self._process.stdout.close()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for said in self._process.stdout:
            told = msgspec.json.decode(said, type=Slow | Total)
            if isinstance(told, Slow):
                self._slow.append(told)
            else:
                self.total = told


class Stories:
    """What agents remember, also those that were killed."""

    def __init__(self, cluster: holdfast.LocalCluster) -> None:
        self._cluster = cluster
        self._killed: deque[list[Event]] = deque(maxlen=_STORIES)

    def before_kill(self, victim: int) -> None:
        """Take a copy of what an agent remembers: a new one is to take its place."""
        name = self._cluster.nodes[victim].name
        self._killed.append([event for event in self._cluster.story() if event.node == name])

    def all(self) -> list[Event]:
        """Return all events in order of time."""
        return stories.merge([*self._killed, self._cluster.story()])


@contextmanager
def shown(tmp_path: Path) -> Iterator[tuple[Path, CountingFS | None]]:
    """Show the data set on a storage that is slow to open files, if there can be one here."""
    if countfs.why_not():
        DemoDataset().write(tmp_path)
        yield tmp_path, None
    else:
        with epochs.shown() as (_, storage):
            yield storage.at, storage


@pytest.mark.soak
def test_no_read_waits_long_for_an_agent_that_was_killed(tmp_path: Path) -> None:
    rng = random.Random(1)
    slow: deque[Slow] = deque()
    ours = []
    with (
        shown(tmp_path) as (root, storage),
        holdfast.local_cluster(NODES, storage=storage, **SETTINGS) as cluster,
        Pauses() as pauses,
    ):
        told = Stories(cluster)

        def judge(when: str) -> None:
            while slow:
                ours.extend(_judge(slow.popleft(), told.all(), pauses, when))

        with ExitStack() as stack:
            readers = [Reader(cluster, root, rank, slow) for rank in range(NODES)]
            for reader in readers:
                stack.callback(reader.close)
            for kill in range(KILLS):
                time.sleep(rng.uniform(0.2, 0.6))
                victim = rng.randrange(NODES)
                told.before_kill(victim)
                cluster.kill(victim)
                time.sleep(rng.uniform(0.2, 2.0))  # before its death is agreed, and after
                cluster.restart(victim)
                _agree(cluster)
                judge(f"kill {kill}")
                assert all(reader.runs for reader in readers)
            for reader in readers:
                reader.end()
        judge("after the last kill")
        totals = [reader.total for reader in readers if reader.total]
        assert len(totals) == NODES, "a reader did not come to its end"
        print(
            f"{KILLS} kills, {sum(total.reads for total in totals)} reads; "
            f"the longest took {max(total.longest for total in totals):.2f} s, "
            f"{sum(total.noted for total in totals)} took longer than {NOTED} s"
        )
        assert not ours, "reads waited long, and the machine did not"


def _agree(cluster: holdfast.LocalCluster) -> None:
    def complete() -> bool:
        with cluster.connect() as job:
            return len(job.nodes) == NODES

    wait_for(complete, "not all nodes came back")


def _judge(slow: Slow, story: list[Event], pauses: Pauses, when: str) -> list[Slow]:
    """Print a read with its story; return it unless the machine stood still for the excess."""
    took = slow.end - slow.begin
    paused = pauses.between(slow.begin, slow.end)
    print(
        f"{when}: {slow.reader} waited {took:.2f} s for {slow.path}; "
        f"the machine paused for {paused:.2f} s of them"
    )
    for event in story:
        near = slow.begin - LONG < event.time < slow.end + LONG
        if slow.path in event.names or (near and event.kind not in ("waited", "refused")):
            print("   ", line(event))
    return [] if paused >= took - LONG else [slow]
