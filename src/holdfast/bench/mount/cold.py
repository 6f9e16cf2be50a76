"""Files that neither the kernel nor an agent has seen, through a tree of three agents."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

from .. import programs
from ..core.setup import ReportPart
from ..figures import at_most
from ..measure import interleave
from .setup import MountedCluster, Sizes, drop_caches
from .setup import mounted as mounts
from .warm import small_files

_AGENTS = 3
#: What is done to each file, and how long it may take, in microseconds; Copper's milliseconds.
_LIMITS = {"stat": (250, "2.9"), "4 KB read": (400, "6.9")}


def run(sizes: Sizes) -> ReportPart:
    """Ask for each file once; in every round they are others."""
    figures = []
    with tempfile.TemporaryDirectory(prefix="hf") as directory:
        root = os.path.realpath(directory)
        fresh = iter(  # all are there before anybody has looked
            [
                _files(Path(root, str(number)), sizes.cold_files)
                for number in range(len(_LIMITS) * 2 * sizes.cold_rounds)
            ]
        )
        with mounts(root, agents=_AGENTS) as mounted:
            core = programs.two_cores()[1]
            mounted.pin(core)  # with who reads, as in a round trip (hops.py)
            for kind, act in (("stat", _stat), ("4 KB read", _read)):
                limit, copper = _LIMITS[kind]

                def direct(act: Callable[[str], None] = act) -> float:
                    return _each(sizes, next(fresh), act)

                def ours(act: Callable[[str], None] = act) -> float:
                    return _each(sizes, _through(mounted, next(fresh)), act)

                with programs.on_core(core):
                    times = interleave({"direct": direct, "tree": ours}, sizes.cold_rounds)
                name = f"cold {kind} through a tree of {_AGENTS}, {sizes.cold_files:,} files"
                against = f"direct, cold, {times.middle('direct') * 1e6:.0f} µs; Copper {copper} ms"
                micro = 1e6 * times.middle("tree")
                figures.append(at_most(name, micro, limit, "µs per file", against))
    return ReportPart(figures)


def _files(top: Path, count: int) -> list[str]:
    return [f"{top}/{name}" for name in small_files(top, count)]


def _through(mounted: MountedCluster, paths: list[str]) -> list[str]:
    return [mounted.path(path) for path in paths]


def _stat(path: str) -> None:
    os.stat(path)


def _read(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    os.read(descriptor, 1 << 16)
    os.close(descriptor)


def _each(sizes: Sizes, paths: list[str], act: Callable[[str], None]) -> float:
    drop_caches(sizes)
    start = perf_counter()
    for path in paths:
        act(path)
    return (perf_counter() - start) / len(paths)
