"""The round trip from a node to the head of a tree and back, by depth and payload.

This is the Copper paper's Figure 3. The head has the file, and nobody on the way: what is read at
depth 3 travels up three hops and down again. Each agent has a mount, through which it is read; all
of them share a core, where nothing but software lies between them.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from statistics import median
from time import perf_counter

from ... import _core
from ...errors import HoldfastError
from ...placement.ring import Ring
from ...placement.trees import Trees
from ...units import format_size
from .. import programs
from ..core.setup import ReportPart
from ..figures import at_most, shown
from .setup import MountedCluster, Sizes
from .setup import mounted as mounts

_AGENTS, _DEGREE = 16, 2  # 1, 2, 4 and 8 nodes, and one at depth 4
DEPTHS = (0, 1, 2, 3, 4)
#: Files below this size are held to the target.
_SMALL = 131_072
_MOST_PER_HOP = 150.0
_WARM_UP = 150


class _Trips:
    """Files that are read once, at the depth that is wanted."""

    def __init__(self, mounted: MountedCluster, root: str, files: Iterator[Path]) -> None:
        self._mounted, self._root, self._files = mounted, root, files
        self._nodes = {node.name: index for index, node in enumerate(mounted.cluster.nodes)}
        ring = Ring(list(self._nodes), mounted.cluster.config.virtual_nodes)
        self._trees = Trees(ring, [""] * len(self._nodes), _DEGREE)

    def _above(self, path: Path) -> dict[str, list[str]]:
        """Return for each node those between it and the head of a path's tree, and the head."""
        key = _core.FILE_PREFIX + os.fsencode(path)
        return {node: self._trees.ancestors(key, node) for node in self._nodes}

    def _read(self, node: str, path: Path) -> float:
        place = self._mounted.path(path, self._nodes[node])
        start = perf_counter()
        descriptor = os.open(place, os.O_RDONLY)
        os.read(descriptor, 1)
        seconds = perf_counter() - start
        os.close(descriptor)
        return seconds

    def warm_up(self, files: int) -> None:
        """Let all mounts know the directory, and all agents have connected to one another."""
        for index in self._nodes.values():
            os.listdir(self._mounted.path(self._root, index))
        for path in islice(self._files, files):
            for node in self._nodes:
                self._read(node, path)

    def time(self, depth: int) -> float:
        """Return the seconds of one round trip from a depth, 0 being the head itself."""
        path = next(self._files)
        above = self._above(path)
        node = next((node for node, those in above.items() if len(those) == depth), None)
        if node is None:
            raise HoldfastError(f"no node of a tree of {len(above)} is at depth {depth}")
        # Another branch asks first: then the head's agent has the file, and no mount on our way.
        used = {node, *above[node]}
        first = next(name for name, those in above.items() if len(those) == 1 and name not in used)
        self._read(first, path)
        return self._read(node, path)


def run(sizes: Sizes) -> ReportPart:
    """Measure round trips; in turns, so that what disturbs one disturbs all."""
    samples: dict[tuple[int, int], list[float]] = {
        (size, depth): [] for size in sizes.payloads for depth in DEPTHS
    }
    core = programs.two_cores()[0]
    warm_up = min(_WARM_UP, 10 * sizes.trips)
    with tempfile.TemporaryDirectory(prefix="hf") as directory:
        root = os.path.realpath(directory)
        turns = [size for _ in range(sizes.trips) for size, _ in samples]
        files = [  # all are there before anybody has looked
            _write(Path(root, f"{number:06}"), size)
            for number, size in enumerate([64] * warm_up + turns)
        ]
        with mounts(root, _AGENTS, memory="512 MiB", tree_degree=_DEGREE) as mounted:
            mounted.pin(core)
            trips = _Trips(mounted, root, iter(files))
            trips.warm_up(warm_up)
            with programs.on_core(core):
                for _ in range(sizes.trips):
                    for (_, depth), times in samples.items():
                        times.append(trips.time(depth))
    return _figures({place: 1e6 * median(times) for place, times in samples.items()}, sizes)


def _write(path: Path, size: int) -> Path:
    path.write_bytes(os.urandom(size))
    return path


def _figures(micro: dict[tuple[int, int], float], sizes: Sizes) -> ReportPart:
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
    return ReportPart(figures)
