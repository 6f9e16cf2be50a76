"""`import numpy, pandas` from an environment that is seen through a mount, against direct.

And the first import on more nodes than there are here, simulated.
"""

from __future__ import annotations

import sys

from ...planner.imports import Import
from .. import programs
from ..core.setup import ReportPart
from ..figures import at_most, shown
from ..measure import interleave
from .setup import Sizes, drop_caches, importing, interpreter, lacking, timed
from .setup import mounted as mounts

_NODES = (64, 256, 1024, 2048, 4096, 8300, 10_000)
_FROM, _TO = 64, 8300
#: What the head asks of the shared file system for each file: it opens, looks and reads. Names come
#: in listings. With more, the shared file system's part would hide what the tree takes.
_OPERATIONS = 3.0
_DEGREE = 8


def run(sizes: Sizes) -> ReportPart:
    """Measure warm and cold imports."""
    if reason := lacking(*sizes.imported):
        return ReportPart([], notes=[f"Imports were not measured: {reason}."])
    agents_core, core = programs.two_cores()
    direct = importing(sys.executable, *sizes.imported)
    with programs.on_core(core):
        timed(direct)  # leaves all byte code
        with mounts(sys.prefix) as mounted:
            mounted.pin(core)  # one core for all, as the direct import has one
            ours = importing(interpreter(mounted.path(sys.prefix)), *sizes.imported)
            timed(ours)
            warm = interleave({"direct": lambda: timed(direct), "mount": lambda: timed(ours)},
                              sizes.rounds)  # fmt: skip
        cold = interleave(
            {
                "direct": lambda: _cold(sizes, direct),
                "mount": lambda: _cold_mount(sizes, agents_core),
            },
            sizes.cold_rounds,
        )
    what = f'python -c "import {", ".join(sizes.imported)}" through the mount'
    return ReportPart(
        [
            at_most(f"{what}, warm", warm.ratio("mount", "direct"), 1.08, "x its time",
                    f"direct, {warm.middle('direct'):.2f} s; Copper 3.5-5"),
            at_most(f"{what}, cold, one node", cold.ratio("mount", "direct"), 1.5, "x its time",
                    f"direct, cold, {cold.middle('direct'):.2f} s; Copper 2.2"),
        ]
    )  # fmt: skip


def simulated(_sizes: Sizes) -> ReportPart:
    """Simulate the first import down a tree, storage and network as in the Copper paper."""
    if reason := lacking("numpy"):
        return ReportPart([], notes=[f"No tree was simulated: {reason}."])
    import numpy as np  # noqa: PLC0415 - the demo, which needs none, uses this package too

    from ...planner.imports_simulated import broadcast  # noqa: PLC0415

    job = Import(operations=_OPERATIONS, degree=_DEGREE)
    seconds = {nodes: broadcast(job, nodes, np.random.default_rng(nodes)) for nodes in _NODES}
    name = f"simulated tree, {job.files} files: {_TO:,} nodes"
    growth = seconds[_TO] / seconds[_FROM]
    return ReportPart(
        [
            at_most(name, growth, 1.5, "x its time", f"{_FROM} nodes"),
            *(
                shown(f"simulated tree: {nodes:,} nodes", time, "s")
                for nodes, time in seconds.items()
            ),
        ]
    )


def _cold(sizes: Sizes, command: list[str]) -> float:
    drop_caches(sizes)
    return timed(command)


def _cold_mount(sizes: Sizes, core: int) -> float:
    """Import through an agent and a mount that have seen nothing yet."""
    with mounts(sys.prefix) as mounted:
        mounted.pin(core)
        return _cold(sizes, importing(interpreter(mounted.path(sys.prefix)), *sizes.imported))
