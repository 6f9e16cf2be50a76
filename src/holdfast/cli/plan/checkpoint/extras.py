"""What `holdfast plan checkpoint` answers beside the schedule: bandwidth, staging, simulation."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.table import Table

from ....errors import BadInput
from ....planner.checkpoint import simulated_clock, simulated_periods
from ....planner.checkpoint.machine import enough_threads, needed_bandwidth, staging
from ....planner.checkpoint.system import Outcome
from ..show import table
from .question import CheckpointQuestion
from .text import percent, rate

if TYPE_CHECKING:
    from ....planner import Estimate

#: How the top level is written -> whether that is asynchronous.
MODES = {"sync": False, "async": True}
#: A field of the JSON, what is in it, and a table; None if it was not asked for.
_Extra = tuple[str, Any, Table | None]
_Chosen = dict[str, Outcome | None]


def _bandwidth(question: CheckpointQuestion, chosen: _Chosen) -> _Extra:
    wanted, machine = question.efficiency, question.inputs.machine
    if wanted is None:
        return "needed_bandwidth", None, None
    if machine is None:
        raise BadInput(
            "--efficiency needs sizes and bandwidths: --nodes, --checkpoint and the rest"
        )
    needed = {
        mode: needed_bandwidth(machine, wanted, asynchronous=flag) for mode, flag in MODES.items()
    }
    made = table(f"Shared bandwidth for an efficiency of {percent(wanted)}", "", "needed", "now")
    for mode, name in (("async", "drained in the background"), ("sync", "program waits")):
        value = needed[mode]
        shown = "none is enough" if value is None else rate(value)
        made.add_row(name, shown, rate(machine.shared))
    numbers: dict[str, float | None] = {"efficiency": wanted}
    numbers |= {f"{mode}_bytes_per_s": value for mode, value in needed.items()}
    return "needed_bandwidth", numbers, made


def _staging(question: CheckpointQuestion, chosen: _Chosen) -> _Extra:
    curve, machine = question.staging_curve, question.inputs.machine
    if curve is None:
        return "staging", None, None
    if machine is None:
        raise BadInput(
            "--staging-curve needs sizes and bandwidths: --nodes, --checkpoint and the rest"
        )
    slope = question.overhead_slope
    points = staging(
        machine, curve, lambda read: machine.overhead if slope is None else slope * read / 1e9
    )
    if not points:
        raise BadInput("the job makes no progress at any point of --staging-curve")
    best = max(points, key=lambda point: point.useful(machine.nodes))
    made = table(
        "Staging nodes", "nodes", "write rate", "overhead", "efficiency", "per allocated node"
    )
    for point in points:
        made.add_row(
            f"{point.nodes}{'  <- best' if point is best else ''}",
            rate(point.bandwidth),
            f"{point.overhead:.3g}",
            percent(point.outcome.efficiency),
            percent(point.useful(machine.nodes)),
        )
    numbers = {
        "best_nodes": best.nodes,
        "points": [
            {
                "nodes": point.nodes,
                "bytes_per_s": point.bandwidth,
                "overhead": point.overhead,
                "efficiency": point.outcome.efficiency,
                "useful_per_node": point.useful(machine.nodes),
            }
            for point in points
        ],
    }
    return "staging", numbers, made


def _threads(question: CheckpointQuestion, chosen: _Chosen) -> _Extra:
    if question.thread_curve is None:
        return "threads", None, None
    count, reached = enough_threads(question.thread_curve)
    made = table("Writer threads per staging node", "threads", "write rate")
    for threads, measured in question.thread_curve:
        made.add_row(f"{threads}{'  <- enough' if threads == count else ''}", rate(measured))
    return "threads", {"enough": count, "bytes_per_s": reached}, made


def _simulated(question: CheckpointQuestion, chosen: _Chosen) -> _Extra:
    if not question.periods:
        return "simulated", None, None
    if question.periods < 2:
        raise BadInput(f"cannot simulate {question.periods} periods; use at least 2, better 10000")
    system, rng = question.inputs.system, np.random.default_rng(question.seed)
    made = table("Simulated", "", "model", "simulated", "off by (sigma)")
    numbers: dict[str, Any] = {"periods": question.periods, "seed": question.seed}
    for mode, flag in MODES.items():
        outcome = chosen[mode]
        if outcome is None:
            continue
        seen = simulated_periods.simulate(
            system, outcome.schedule, asynchronous=flag, periods=question.periods, rng=rng
        )
        numbers[f"{mode}_expected_s"] = _estimate(seen)
        made.add_row(
            f"{mode}: seconds per period, by the rules", f"{outcome.expected:.6g}",
            f"{seen.mean:.6g} ± {seen.error:.2g}", f"{seen.sigmas(outcome.expected):+.1f}",
        )  # fmt: skip
    drained = chosen["async"]
    if drained is not None and system.levels == 2:
        for restart in (False, True):
            seen = simulated_clock.simulate(
                system, drained.schedule, restart=restart, rng=rng, runs=10,
                periods=max(1, question.periods // 10),
            )  # fmt: skip
            name = "restarts" if restart else "resumes"
            numbers[f"async_efficiency_if_drain_{name}"] = _estimate(seen)
            made.add_row(
                f"async: efficiency, by the clock, drain {name}", percent(drained.efficiency),
                f"{percent(seen.mean)} ± {100 * seen.error:.1f}", "",
            )  # fmt: skip
    return "simulated", numbers, made


def _estimate(seen: Estimate) -> dict[str, float]:
    return {"mean": seen.mean, "standard_error": seen.error}


EXTRAS: tuple[Callable[[CheckpointQuestion, _Chosen], _Extra], ...] = (
    _bandwidth,
    _staging,
    _threads,
    _simulated,
)
