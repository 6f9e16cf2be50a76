"""The tree on more nodes than there are here, storage and network as in the Copper paper."""

from __future__ import annotations

from ...planner.imports import Import
from ..core.stage import Part
from ..figures import at_most, shown
from .stage import Sizes, lacking

_NODES = (64, 256, 1024, 2048, 4096, 8300, 10_000)
_FROM, _TO = 64, 8300
#: What the head asks of the storage for each file: it opens, looks and reads. Names come in
#: listings. With more, the storage's share would hide what the tree takes.
_OPERATIONS = 3.0
_DEGREE = 8


def run(_sizes: Sizes) -> Part:
    """Simulate the first import on each number of nodes."""
    if reason := lacking("numpy"):
        return Part([], notes=[f"No tree was simulated: {reason}."])
    import numpy as np  # noqa: PLC0415 - the demo, which needs none, uses this package too

    from ...planner.imports_simulated import broadcast  # noqa: PLC0415

    job = Import(operations=_OPERATIONS, degree=_DEGREE)
    seconds = {nodes: broadcast(job, nodes, np.random.default_rng(nodes)) for nodes in _NODES}
    name = f"simulated tree, {job.files} files: {_TO:,} nodes"
    growth = seconds[_TO] / seconds[_FROM]
    return Part(
        [
            at_most(name, growth, 1.5, "x its time", f"{_FROM} nodes"),
            *(
                shown(f"simulated tree: {nodes:,} nodes", time, "s")
                for nodes, time in seconds.items()
            ),
        ]
    )
