"""`holdfast bench mount`: software that is seen through a mount and comes down a tree."""

from __future__ import annotations

from ...testing import countfs
from ..core.setup import ReportPart
from ..figures import Report
from . import cold, hops, imports, memory, storm, warm
from .setup import SMALL, Sizes

#: Those that need no tree of agents first; the storm, which heats the machine, last.
_PARTS = (
    warm.run,
    imports.run,
    cold.run,
    hops.run,
    memory.run,
    imports.simulated,
    storm.run,
)


def run(sizes: Sizes | None = None) -> Report:
    """Measure the mount; takes about ten minutes."""
    if reason := countfs.why_not():
        return Report("mount", [], invalid=[f"nothing was measured: {reason}"])
    chosen = sizes or Sizes()
    parts: list[ReportPart] = [measure(chosen) for measure in _PARTS]
    notes = [note for part in parts for note in part.notes]
    baselines = {name: rate for part in parts for name, rate in part.baselines.items()}
    if chosen == SMALL:
        baselines.clear()
        notes.append("The sizes were small: the figures show that it works, not how fast.")
    figures = [figure for part in parts for figure in part.figures]
    return Report("mount", figures, baselines, notes=notes)
