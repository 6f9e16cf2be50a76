"""The answer of `holdfast plan checkpoint`: best or given schedule, both ways to write the top."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.table import Table

from ...errors import BadInput
from ...planner.checkpoint import by_clock, by_rules, chain, optimum, two_level
from ...planner.checkpoint.machine import enough_threads, needed_bandwidth, staging
from ...planner.checkpoint.rules_of_thumb import daly, young
from ...planner.checkpoint.system import Outcome, Schedule, System
from ...units import format_time
from . import explain
from .checkpoint_inputs import Inputs
from .checkpoint_plot import draw
from .checkpoint_text import advice, fit_table, input_table, percent, plan_table, rate
from .show import Answer, table

if TYPE_CHECKING:
    from ...planner.estimate import Estimate
    from ...planner.events import Fit

#: Below this efficiency a plan is none.
_WORTHLESS = 1e-3
_MODES = {"sync": False, "async": True}


@dataclass(frozen=True)
class Question:
    """What was asked: inputs, a schedule to judge instead of the best one, and extras."""

    inputs: Inputs
    interval: float | None
    segments: int | None
    counts: tuple[int, ...] | None
    efficiency: float | None
    staging_curve: list[tuple[int, float]] | None
    thread_curve: list[tuple[int, float]] | None
    overhead_slope: float | None
    periods: int
    seed: int

    def schedule(self) -> Schedule | None:
        """Return the schedule to judge, None if the best is wanted."""
        if self.interval is None:
            if self.segments is not None or self.counts is not None:
                raise BadInput("--segments and --counts judge a schedule; add its --interval")
            return None
        levels = self.inputs.system.levels
        if (self.segments is None) == (self.counts is None):
            raise BadInput("an --interval to judge needs either --segments or --counts")
        if self.segments is not None:
            if levels > 2:
                raise BadInput(f"{levels} levels need --counts, {levels - 1} of them")
            if self.segments < 1:
                raise BadInput(f"--segments {self.segments}; a period has at least 1")
            return Schedule(self.interval, (self.segments - 1,))
        assert self.counts is not None
        if len(self.counts) != levels - 1:
            raise BadInput(
                f"--counts has {len(self.counts)} numbers; {levels} levels need {levels - 1}"
            )
        return Schedule(self.interval, self.counts)


def answer(question: Question) -> Answer:
    """Work everything out."""
    inputs, notes = question.inputs, list(question.inputs.notes)
    system = inputs.system
    given = question.schedule()
    best = {mode: _best(system, asynchronous=flag) for mode, flag in _MODES.items()}
    chosen = best
    if given is not None:
        chosen = {}
        for mode, flag in _MODES.items():
            try:
                chosen[mode] = _judge(system, given, asynchronous=flag)
            except BadInput as error:
                chosen[mode] = None
                notes.append(f"drained in the background this schedule is impossible: {error}")
    if not any(chosen.values()):
        raise BadInput(
            f"no schedule makes progress (0.1 % of the time): failures come every "
            f"{format_time(1 / system.rate)}, and a shared checkpoint takes "
            f"{format_time(system.costs[-1])}; faster storage or fewer nodes are needed"
        )
    rules = _shared_only(system)
    tables = [plan_table(chosen, rules), input_table(system)]
    numbers: dict[str, Any] = {
        "inputs": {
            "levels": [
                {"cost_s": cost, "recovery_s": recovery, "rate_per_s": failures}
                for cost, recovery, failures in zip(
                    system.costs, system.recoveries, system.rates, strict=True
                )
            ],
            "drain_s": system.drain,
            "overhead": system.overhead,
        },
        **{mode: _numbers(outcome) for mode, outcome in chosen.items()},
        "best": {mode: _numbers(outcome) for mode, outcome in best.items()},
        "shared_only": {
            name: {"interval_s": interval, "efficiency": efficiency}
            for name, (interval, efficiency) in rules.items()
        },
        "fit": None, "needed_bandwidth": None, "staging": None, "threads": None,
        "simulated": None,
    }  # fmt: skip
    if (fit := inputs.fit) is not None:
        numbers["fit"], made, sure = _fit(fit)
        tables.append(made)
        notes.extend(sure)
    for extra in (_bandwidth, _staging, _threads, _simulated):
        key, value, shown = extra(question, chosen)
        if shown is not None:
            numbers[key] = value
            tables.append(shown)
    return Answer(
        "checkpoint",
        advice(system, chosen, best, judged=given is not None),
        numbers,
        tables,
        lambda figure: draw(figure, system, chosen, rules),
        explain.CHECKPOINT,
        notes,
    )


def _best(system: System, *, asynchronous: bool) -> Outcome | None:
    outcome = optimum.best(system, asynchronous=asynchronous)
    if outcome is None or outcome.efficiency < _WORTHLESS:
        return None
    return _judge(system, outcome.schedule, asynchronous=asynchronous)


def _judge(system: System, schedule: Schedule, *, asynchronous: bool) -> Outcome:
    if system.levels == 2:
        return two_level.evaluate(system, schedule, asynchronous=asynchronous)
    return chain.evaluate(system, schedule, asynchronous=asynchronous)


def _numbers(outcome: Outcome | None) -> dict[str, Any] | None:
    if outcome is None:
        return None
    return {
        "interval_s": outcome.schedule.interval,
        "segments": outcome.schedule.segments,
        "counts": list(outcome.schedule.counts),
        "expected_s": outcome.expected,
        "efficiency": outcome.efficiency,
        "draining_segments": outcome.draining,
    }


def _shared_only(system: System) -> dict[str, tuple[float, float]]:
    """Young's and Daly's interval for one synchronous level, and what they bring."""
    cost, failures = system.costs[-1], system.rate
    if not cost or not failures:
        return {}
    single = System((cost, cost), system.recoveries[-2:], (0.0, failures), cost)
    rules = {}
    for name, rule in (("young", young), ("daly", daly)):
        interval = rule(cost, failures)
        expected = float(two_level.expected(single, interval, 1, asynchronous=False))
        rules[name] = (interval, interval / expected)
    return rules


_Extra = tuple[str, Any, Table | None]
_Chosen = dict[str, Outcome | None]


def _fit(fit: Fit) -> tuple[dict[str, Any], Table, list[str]]:
    """Return what a log gave as numbers, as a table, and how sure the plan is in a sentence."""
    ends: dict[str, Any] = {}
    for end in ("low", "high"):
        system = fit.system(end)
        # Where nothing was seen the low end is 0, for which there is no best plan.
        rates = tuple(
            max(failures, 1e-3 * level.plan)
            for failures, level in zip(system.rates, fit.rates, strict=True)
        )
        outcome = optimum.best(replace(system, rates=rates), asynchronous=True)
        ends[f"{end}_rates"] = _numbers(outcome)
    numbers = {
        "runs": fit.runs,
        "watched_s": fit.watched,
        "rates": fit.rates,
        "costs": fit.costs,
        "recoveries": fit.recoveries,
        "drain": fit.drain,
        "overhead": fit.overhead,
        "shape": fit.shape,
        "async_at": ends,
    }
    sure = []
    low, high = ends["low_rates"], ends["high_rates"]
    if low and high:
        sure.append(
            f"within the 95 % intervals of the rates the best interval, drained, lies between "
            f"{format_time(high['interval_s'])} and {format_time(low['interval_s'])}, and its "
            f"efficiency between {percent(high['efficiency'])} and {percent(low['efficiency'])}"
        )
    return numbers, fit_table(fit), sure


def _bandwidth(question: Question, chosen: _Chosen) -> _Extra:
    wanted, machine = question.efficiency, question.inputs.machine
    if wanted is None:
        return "needed_bandwidth", None, None
    if machine is None:
        raise BadInput("--efficiency asks for a bandwidth, so give --nodes, --checkpoint and rates")
    needed = {
        mode: needed_bandwidth(machine, wanted, asynchronous=flag) for mode, flag in _MODES.items()
    }
    made = table(f"Shared bandwidth for an efficiency of {percent(wanted)}", "", "needed", "now")
    for mode, name in (("async", "drained in the background"), ("sync", "program waits")):
        value = needed[mode]
        shown = "none is enough" if value is None else rate(value)
        made.add_row(name, shown, rate(machine.shared))
    numbers: dict[str, float | None] = {"efficiency": wanted}
    numbers |= {f"{mode}_bytes_per_s": value for mode, value in needed.items()}
    return "needed_bandwidth", numbers, made


def _staging(question: Question, chosen: _Chosen) -> _Extra:
    curve, machine = question.staging_curve, question.inputs.machine
    if curve is None:
        return "staging", None, None
    if machine is None:
        raise BadInput("--staging-curve needs the machine: --nodes, --checkpoint and the rest")
    slope = question.overhead_slope
    points = staging(
        machine, curve, lambda read: machine.overhead if slope is None else slope * read / 1e9
    )
    if not points:
        raise BadInput("at no point of --staging-curve does the job make progress")
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


def _threads(question: Question, chosen: _Chosen) -> _Extra:
    if question.thread_curve is None:
        return "threads", None, None
    count, reached = enough_threads(question.thread_curve)
    made = table("Writer threads per staging node", "threads", "write rate")
    for threads, measured in question.thread_curve:
        made.add_row(f"{threads}{'  <- enough' if threads == count else ''}", rate(measured))
    return "threads", {"enough": count, "bytes_per_s": reached}, made


def _simulated(question: Question, chosen: _Chosen) -> _Extra:
    if not question.periods:
        return "simulated", None, None
    if question.periods < 2:
        raise BadInput(f"{question.periods} periods to simulate; take at least 2, better 10000")
    system, rng = question.inputs.system, np.random.default_rng(question.seed)
    made = table("Simulated", "", "model", "simulated", "off by (sigma)")
    numbers: dict[str, Any] = {"periods": question.periods, "seed": question.seed}
    for mode, flag in _MODES.items():
        outcome = chosen[mode]
        if outcome is None:
            continue
        seen = by_rules.simulate(
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
            seen = by_clock.simulate(
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
