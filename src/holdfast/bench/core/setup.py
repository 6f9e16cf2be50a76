"""Where the figures are taken: a local cluster, every process pinned to one of two cores."""

from __future__ import annotations

import os
import tempfile
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ...job import local_cluster
from ...placement.ring import Ring
from ...session import session as sessions
from .. import programs
from ..figures import Figure
from ..programs import Pace

if TYPE_CHECKING:
    from typing_extensions import Self

SMALL, MEDIUM, LARGE, HUGE = 64, 100_000, 4_000_000, 16_000_000

#: How long a contestant has the cores in each round.
TURN_MS = 400


class ReportPart(msgspec.Struct):
    """What one group of measurements adds to the report."""

    figures: list[Figure]
    baselines: dict[str, float] = {}
    notes: list[str] = []


class BenchCluster:
    """Four agents on one core, objects of all sizes on the first of them, clients on another.

    Also holds what the measurements start, until it is taken down.
    """

    def __init__(self) -> None:
        self.server_core, self.client_core = programs.two_cores()
        with ExitStack() as stack:
            self.directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            self.cluster = stack.enter_context(local_cluster(nodes=4, memory="512 MiB"))
            for node in self.cluster.nodes:
                programs.pin(node.pid, self.server_core)
            self.job = self.cluster.connect(0)
            self.job_key = sessions.read_key(self.cluster.directory)
            self.member = self.cluster.nodes[0].member
            self._ring = Ring(self.job.nodes, self.cluster.config.virtual_nodes)
            self._numbers = count()
            self.keys = {size: self._put(size) for size in (SMALL, MEDIUM, LARGE, HUGE)}
            self.held = stack.pop_all()

    def fresh_key(self, *owners: int) -> str:
        """Return a key that nobody has used, and whose first owners are these nodes."""
        wanted = [self.cluster.nodes[index].name for index in owners]
        while True:
            key = f"bench/{next(self._numbers)}"
            if self._ring.owners(key.encode(), len(owners)) == wanted:
                return key

    def _put(self, size: int) -> str:
        key = self.fresh_key(0)
        self.job.objects.put(key, os.urandom(size), copies=1)
        return key

    def server(self, name: str, address: str, size: int) -> str:
        """Run a server of native/bench; gives its address."""
        return self.held.enter_context(programs.server(self.server_core, name, address, size))

    def raw(self, core: int, address: str, size: int, clients: int = 1) -> Pace:
        """Run the baselines' client for a turn."""
        return programs.client(core, "raw_client", address, size, clients, TURN_MS)

    def gets(self, core: int, address: str, size: int, clients: int = 1) -> Pace:
        """Get the object of that size by the core's client for a turn."""
        arguments = (address, self.keys[size], size, clients, TURN_MS)
        return programs.client(core, "get_loop", *arguments, stdin=self.job_key)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.held.close()
