"""The hash ring at the size of large machines."""

from __future__ import annotations

import random
from statistics import median
from time import perf_counter

from ..._core import Ring
from .. import programs
from ..figures import Figure, at_most, exactly

_SEEDS = 20
_VIRTUAL_NODES = 100
#: Nodes, and how much of the mean load the fullest of them may have.
_SIZES = ((1024, 1.45), (10_000, 1.55))


def run() -> list[Figure]:
    """Measure balance, lookups, removal and construction."""
    return [figure for nodes, limit in _SIZES for figure in _one_size(nodes, limit)]


def _one_size(nodes: int, limit: float) -> list[Figure]:
    what = f"ring of {nodes:,} x {_VIRTUAL_NODES}"
    fullest, seconds = [], []
    for seed in range(_SEEDS):
        names = [f"{seed}/node-{index}" for index in range(nodes)]
        start = perf_counter()
        ring = Ring(names, _VIRTUAL_NODES)
        seconds.append(perf_counter() - start)
        fullest.append(max(ring.shares()) * nodes)
    lookup = programs.lookup_seconds(nodes, _VIRTUAL_NODES)
    return [
        at_most(f"{what}: load of the fullest node", median(fullest), limit, "x the mean", ""),
        at_most(f"{what}: lookup in C++", 1e9 * lookup, 300, "ns", ""),
        at_most(f"{what}: ready after", 1e3 * median(seconds), 150, "ms", ""),
        exactly(f"{what}: keys moved that the removed node did not own", _moved(nodes), 0, "keys"),
    ]


def _moved(nodes: int) -> int:
    """Remove a random node; count the keys that change hands and were not its own."""
    rng = random.Random(nodes)
    names = [f"node-{index}" for index in range(nodes)]
    gone = rng.choice(names)
    before = Ring(names, _VIRTUAL_NODES)
    after = Ring([name for name in names if name != gone], _VIRTUAL_NODES)
    moved = 0
    for index in range(200_000):
        key = b"dataset/%d" % index
        old, new = before.owners(key, 2), after.owners(key, 2)
        moved += [owner for owner in old if owner != gone] != new[: 2 - (gone in old)]
    return moved
