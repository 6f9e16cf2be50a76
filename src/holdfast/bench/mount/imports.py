"""`import numpy, pandas` from an environment that is seen through a mount, against direct."""

from __future__ import annotations

import sys

from .. import programs
from ..core.stage import Part
from ..figures import at_most
from ..measure import interleave
from .stage import Sizes, drop_caches, importing, interpreter, lacking, timed
from .stage import mounted as mounts


def run(sizes: Sizes) -> Part:
    """Measure warm and cold imports."""
    if reason := lacking(*sizes.imported):
        return Part([], notes=[f"Imports were not measured: {reason}."])
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
    return Part(
        [
            at_most(f"{what}, warm", warm.ratio("mount", "direct"), 1.08, "x its time",
                    f"direct, {warm.middle('direct'):.2f} s; Copper 3.5-5"),
            at_most(f"{what}, cold, one node", cold.ratio("mount", "direct"), 1.5, "x its time",
                    f"direct, cold, {cold.middle('direct'):.2f} s; Copper 2.2"),
        ]
    )  # fmt: skip


def _cold(sizes: Sizes, command: list[str]) -> float:
    drop_caches(sizes)
    return timed(command)


def _cold_mount(sizes: Sizes, core: int) -> float:
    """Import through an agent and a mount that have seen nothing yet."""
    with mounts(sys.prefix) as mounted:
        mounted.pin(core)
        return _cold(sizes, importing(interpreter(mounted.path(sys.prefix)), *sizes.imported))
