"""A data set is read without end while one agent after the other is killed: no read waits long."""

from __future__ import annotations

import os
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest
from pauses import Pauses

import holdfast
from holdfast.client.events import line

NODES = 4
FILES, SIZE = 200, 102_400
KILLS = int(os.environ.get("SOAK_KILLS", "1000"))
#: In seconds: a read that takes longer must have a reason that is not ours.
LONG = 1.0
#: Those of the demo: no setting of ours makes a wait short.
SETTINGS = {
    "memory": "512 MiB",
    "file_tier": "memory",
    "file_settled": "0 s",
    "file_deadline": "10 s",
    "deadline": "10 s",
}
_AGREE_WITHIN = 60.0


class Slow(msgspec.Struct, frozen=True):
    """A read that took long."""

    path: str
    reader: str
    begin: float
    end: float


class Readers:
    """One thread for each node, which reads the data set over and over and compares."""

    def __init__(self, cluster: holdfast.LocalCluster, root: Path, content: bytes) -> None:
        self._cluster = cluster
        self._root = root
        self._content = content
        self.over = threading.Event()
        self.reads = [0] * NODES
        self.longest = [0.0] * NODES
        self.slow: list[Slow] = []

    def run(self, node: int) -> None:
        """Read until it is over."""
        rng = random.Random(node)
        with self._cluster.connect(node) as job:
            files = job.files(self._root, copies=2)
            while not self.over.is_set():
                number = rng.randrange(FILES)
                begin = time.time()
                content = files.read(str(number))
                end = time.time()
                assert content == self._content[number : number + SIZE], f"{number} is wrong"
                self.reads[node] += 1
                self.longest[node] = max(self.longest[node], end - begin)
                if end - begin > LONG:
                    self.slow.append(Slow(f"{self._root}/{number}", job.node, begin, end))


@pytest.mark.soak
def test_no_read_waits_long_for_an_agent_that_was_killed(tmp_path: Path) -> None:
    content = random.Random(0).randbytes(SIZE + FILES)
    for number in range(FILES):
        (tmp_path / str(number)).write_bytes(content[number : number + SIZE])
    rng = random.Random(1)
    ours = []
    with (
        holdfast.local_cluster(NODES, **SETTINGS) as cluster,
        Pauses() as pauses,
        ThreadPoolExecutor(NODES) as pool,
    ):
        readers = Readers(cluster, tmp_path, content)
        running = [pool.submit(readers.run, node) for node in range(NODES)]
        try:
            for kill in range(KILLS):
                time.sleep(rng.uniform(0.2, 0.6))
                victim = rng.randrange(NODES)
                cluster.kill(victim)
                time.sleep(rng.uniform(0.2, 2.0))  # before its death is agreed, and after
                cluster.restart(victim)
                _agree(cluster)
                while readers.slow:
                    ours += _judge(cluster, readers.slow.pop(), pauses, kill)
                assert not any(one.done() for one in running)
        finally:
            readers.over.set()
        for one in running:
            one.result()
        longest = max(readers.longest)
        print(f"{KILLS} kills, {sum(readers.reads)} reads, the longest took {longest:.2f} s")
        assert not ours, "reads waited long, and the machine did not"


def _agree(cluster: holdfast.LocalCluster) -> None:
    end = time.monotonic() + _AGREE_WITHIN
    while True:
        with cluster.connect() as job:
            if len(job.nodes) == NODES:
                return
        assert time.monotonic() < end
        time.sleep(0.05)


def _judge(cluster: holdfast.LocalCluster, slow: Slow, pauses: Pauses, kill: int) -> list[Slow]:
    """Print a read with its story; return it unless the machine itself stood still meanwhile."""
    took = slow.end - slow.begin
    paused = pauses.between(slow.begin, slow.end)
    print(
        f"kill {kill}: {slow.reader} waited {took:.2f} s for {slow.path}; "
        f"the machine paused for {paused:.2f} s of them"
    )
    for event in cluster.story():
        near = slow.begin - LONG < event.time < slow.end + LONG
        if slow.path in event.names or (near and event.kind not in ("waited", "refused")):
            print("   ", line(event))
    return [] if paused >= (took - LONG) / 2 else [slow]
