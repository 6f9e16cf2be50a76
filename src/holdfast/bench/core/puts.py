"""put of 4 MB with two copies against one."""

from __future__ import annotations

import os

from ..figures import at_least
from ..measure import interleave, median_time
from ..programs import on_core, pin
from .stage import LARGE, TURN_MS, Part, Stage


def run(stage: Stage) -> Part:
    """Measure it; the client shares a core with the second owner, the first has one to itself."""
    objects, data = stage.job.objects, os.urandom(LARGE)
    pin(stage.cluster.nodes[2].pid, stage.client_core)

    def put(copies: int) -> str:
        key = stage.fresh_key(1, 2)
        objects.put(key, data, copies=copies)
        return key

    def puts(copies: int) -> float:
        return median_time(lambda: put(copies), TURN_MS, after=objects.drop)

    with on_core(stage.client_core):
        times = interleave({"1": lambda: puts(1), "2": lambda: puts(2)})
    name, against, ratio = "put of 4 MB with 2 copies", "put of 4 MB with 1", times.ratio("1", "2")
    return Part([at_least(name, ratio, 0.45, "of its rate", against)])
