"""The round trip from a node to the head of a tree and back, by depth and payload.

This is the Copper paper's Figure 3. The head has the file, nobody else does: what is asked for at
depth 3 travels up three hops and down again. All agents and the one who asks share a core, where
nothing but software lies between them.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from statistics import median
from time import perf_counter

from ... import _core
from ...errors import HoldfastError
from ...job import LocalCluster, local_cluster
from ...placement.ring import Ring
from ...placement.tree import Trees
from ...session import session as sessions
from ...units import format_size
from .. import programs
from ..core.stage import Part
from ..figures import at_most, shown
from .stage import Sizes

_AGENTS, _DEGREE = 16, 2  # 1, 2, 4 and 8 nodes, and one at depth 4
DEPTHS = (0, 1, 2, 3, 4)
_FILE = 0  # the kind of what is asked for
#: Files below this size are held to the target.
_SMALL = 131_072
_MOST_PER_HOP = 150.0
_WARM_UP = 150
_DEADLINE = 30.0


class _Trips:
    """Files that are asked for once, at the depth that is wanted."""

    def __init__(self, cluster: LocalCluster, root: Path, client: _core.AgentClient) -> None:
        self._addresses = {node.name: node.member.socket for node in cluster.nodes}
        self._root, self._client = root, client
        ring = Ring(list(self._addresses), cluster.config.virtual_nodes)
        self._trees = Trees(ring, [""] * len(self._addresses), _DEGREE)
        self._numbers = count()

    def _depths(self, path: bytes) -> dict[str, int]:
        key = _core.FILE_PREFIX + path
        return {node: len(self._trees.ancestors(key, node)) for node in self._addresses}

    def _files(self, size: int) -> Iterator[tuple[bytes, dict[str, int]]]:
        for number in self._numbers:
            path = self._root / f"{number:06}"
            path.write_bytes(os.urandom(size))
            yield os.fsencode(path), self._depths(os.fsencode(path))

    def _ask(self, node: str, path: bytes) -> float:
        start = perf_counter()
        descriptor, _ = self._client.tree(
            self._addresses[node], _FILE, os.fsencode(self._root), path, deadline=_DEADLINE
        )
        seconds = perf_counter() - start
        os.close(descriptor)
        return seconds

    def warm_up(self, files: int) -> None:
        """Let all agents have connected to one another."""
        for _, (path, depths) in zip(range(files), self._files(64), strict=False):
            for node in depths:
                self._ask(node, path)

    def time(self, depth: int, size: int) -> float:
        """Return the seconds of one round trip from a depth, 0 being the head itself."""
        path, depths = next(self._files(size))
        self._ask(min(depths, key=depths.__getitem__), path)
        node = next((node for node, deep in depths.items() if deep == depth), None)
        if node is None:
            raise HoldfastError(f"no node of a tree of {len(depths)} is at depth {depth}")
        return self._ask(node, path)


def run(sizes: Sizes) -> Part:
    """Measure round trips; in turns, so that what disturbs one disturbs all."""
    samples: dict[tuple[int, int], list[float]] = {
        (size, depth): [] for size in sizes.payloads for depth in DEPTHS
    }
    core = programs.two_cores()[0]
    with ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hf"))).resolve()
        cluster = stack.enter_context(
            local_cluster(_AGENTS, memory="512 MiB", file_settled="0 s", tree_degree=_DEGREE)
        )
        for node in cluster.nodes:
            programs.pin(node.pid, core)
        client = _core.AgentClient(sessions.read_key(cluster.directory))
        stack.callback(client.close)
        trips = _Trips(cluster, root, client)
        trips.warm_up(min(_WARM_UP, 10 * sizes.trips))
        with programs.on_core(core):
            for _ in range(sizes.trips):
                for (size, depth), times in samples.items():
                    times.append(trips.time(depth, size))
    return _figures({place: 1e6 * median(times) for place, times in samples.items()}, sizes)


def _figures(micro: dict[tuple[int, int], float], sizes: Sizes) -> Part:
    figures, deepest = [], DEPTHS[-1]
    per_hop = {
        size: (micro[size, deepest] - micro[size, 0]) / deepest
        for size in sizes.payloads
        if size < _SMALL
    }
    worst = max(per_hop, key=per_hop.__getitem__)
    figures.append(
        at_most(
            "round trip of less than 131,072 bytes, the slowest size", per_hop[worst],
            _MOST_PER_HOP, "µs per hop", f"{format_size(worst)}, depth {deepest} less the head's",
        )
    )  # fmt: skip
    figures += [
        shown(f"round trip of {format_size(size)} from depth {depth}", micro[size, depth], "µs")
        for size in sizes.payloads
        for depth in DEPTHS
    ]
    return Part(figures)
