"""The plot of `holdfast plan checkpoint`: efficiency by interval, the chosen points marked."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from .... import plots
from ....planner.checkpoint import blocks, two_level
from ....planner.checkpoint.system import Schedule

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ....planner.checkpoint.system import Outcome, System

_NAMES = {"async": "drained in the background", "sync": "program waits"}


#: Segments per period that the curve of two levels chooses from, interval by interval.
_SEGMENTS = np.unique(np.geomspace(1, 10_000, 120).round())


def _curve(
    system: System, outcome: Outcome, intervals: npt.NDArray[np.float64], *, asynchronous: bool
) -> list[float]:
    """Efficiency by interval: with the best segments for each, or for many levels as chosen."""
    if system.levels == 2:
        segments = np.union1d(_SEGMENTS, [outcome.schedule.segments])[:, None]
        expected = two_level.expected(system, intervals, segments, asynchronous=asynchronous)
        return [float(value) for value in (intervals * segments / expected).max(axis=0)]
    values = []
    for interval in intervals:
        schedule = Schedule(float(interval), outcome.schedule.counts)
        if asynchronous and system.draining_segments(schedule.interval) > schedule.segments:
            values.append(math.nan)
        else:
            judged = blocks.evaluate(system, schedule, asynchronous=asynchronous)
            values.append(judged.efficiency)
    return values


def draw(
    figure: Figure,
    system: System,
    chosen: dict[str, Outcome | None],
    rules: dict[str, tuple[float, float]],
) -> None:
    """Draw efficiency over the interval."""
    on = plots.axes(
        figure,
        "Useful share of the time, by how often a checkpoint is taken",
        "computation between checkpoints (minutes)",
        "efficiency (% of the time)",
    )
    outcomes = {mode: outcome for mode, outcome in chosen.items() if outcome is not None}
    middle = [outcome.schedule.interval for outcome in outcomes.values()]
    intervals = np.geomspace(min(middle) / 10, max(middle) * 10, 300)
    for index, (mode, outcome) in enumerate(sorted(outcomes.items())):
        grid = np.union1d(intervals, [outcome.schedule.interval])
        values = np.array(_curve(system, outcome, grid, asynchronous=mode == "async"))
        on.plot(grid / 60, 100 * values, label=_NAMES[mode], **plots.style(index, markers=False))
        plots.mark(
            on, outcome.schedule.interval / 60, 100 * outcome.efficiency,
            f"{100 * outcome.efficiency:.1f} % at {outcome.schedule.interval / 60:.3g} min, "
            f"1 of {outcome.schedule.segments} to shared",
            below=index > 0,
        )  # fmt: skip
    for marker, (name, (interval, efficiency)) in zip("x+", rules.items(), strict=False):
        on.plot(
            [interval / 60], [100 * efficiency], marker, color="0.3", markersize=9,
            markeredgewidth=2, label=f"{name.capitalize()}, shared only",
        )  # fmt: skip
    on.set_xscale("log")
    plots.plain_numbers(on)
    on.set_ylim(0, 105)
    on.legend(fontsize=8, loc="lower left", framealpha=0.9)
