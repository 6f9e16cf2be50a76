"""Puts of 4 x 64 MB by four processes through their own node, against copies in memory.

Nothing is pinned: programs, which write the bytes, have all cores of a node.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from time import perf_counter

import msgspec

from ...errors import HoldfastError
from ...job import LocalCluster, local_cluster
from ...placement.ring import Ring
from ..figures import at_most
from ..measure import interleave
from ..programs import server
from .putter import PutterTask
from .setup import ReportPart

_PROCESSES, _SIZE = 4, 64 << 20
_PUTTER = [sys.executable, "-c", "from holdfast.bench.core.putter import main; main()"]


def run() -> ReportPart:
    """Measure them."""
    with ExitStack() as stack:
        cluster = stack.enter_context(local_cluster(nodes=2, memory="768 MiB", disk="64 MiB"))
        address = stack.enter_context(server(None, "blocking_server", "tcp:127.0.0.1:0", _SIZE))
        node = cluster.nodes[0]
        task = PutterTask(str(cluster.directory), node.name, address, _SIZE)
        putters = stack.enter_context(_putters(task))
        keys = _Keys(cluster)

        def copy() -> float:
            return putters.time(["copy"] * _PROCESSES)

        def put(copies: int) -> float:
            fresh = [keys.fresh() for _ in range(_PROCESSES)]
            seconds = putters.time([f"put {key} {copies}" for key in fresh])
            putters.time([f"drop {key}" for key in fresh])
            return seconds

        times = interleave(
            {
                "copy": copy,
                "put 1": lambda: put(1),
                "copy and send": lambda: copy() + putters.time(["receive"] * _PROCESSES),
                "put 2": lambda: put(2),
            }
        )
        large = Path(node.tiers.memory_dir, "large").is_symlink()
    name, unit = f"put of {_PROCESSES} x 64 MB by {_PROCESSES} processes", "x its time"
    one, two = times.ratio("put 1", "copy"), times.ratio("put 2", "copy and send")
    notes = [] if large else ["The memory tier had no huge pages: a put of 1 copy may take 5 x."]
    return ReportPart(
        [
            at_most(f"{name}, 1 copy", one, 1.4 if large else 5, unit, "memcpy by the same"),
            at_most(f"{name}, 2 copies", two, 1.6, unit, "memcpy and raw TCP by the same"),
        ],
        {"memcpy of 4 x 64 MB by 4 processes": 1 / times.middle("copy")},
        notes=notes,
    )


class _Keys:
    """Keys that nobody has used, whose first owner is node 0."""

    def __init__(self, cluster: LocalCluster) -> None:
        names = [node.name for node in cluster.nodes]
        self._wanted = names[0]
        self._ring = Ring(names, cluster.config.virtual_nodes)
        self._numbers = count()

    def fresh(self) -> str:
        while True:
            key = f"large/{next(self._numbers)}"
            if self._ring.owners(key.encode(), 1) == [self._wanted]:
                return key


class _Putters:
    """Processes that all do something at the same time."""

    def __init__(self, processes: list[subprocess.Popen[str]]) -> None:
        self._processes = processes

    def time(self, lines: list[str]) -> float:
        """Let each do what its line says; return the seconds until the last has done it."""
        start = perf_counter()
        for process, line in zip(self._processes, lines, strict=True):
            assert process.stdin is not None
            process.stdin.write(line + "\n")
            process.stdin.flush()
        for process in self._processes:
            assert process.stdout is not None
            if not process.stdout.readline():
                raise HoldfastError("a client process of the benchmark ended early")
        return perf_counter() - start


@contextmanager
def _putters(task: PutterTask) -> Iterator[_Putters]:
    processes = [
        subprocess.Popen(_PUTTER, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(_PROCESSES)
    ]
    try:
        putters = _Putters(processes)
        putters.time([msgspec.json.encode(task).decode()] * _PROCESSES)
        yield putters
    finally:
        for process in processes:
            process.kill()
            process.communicate()
