"""The answer of `holdfast plan checkpoint`: best or given schedule, both ways to write the top."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rich.table import Table

from ....errors import BadInput
from ....planner.checkpoint import chain, optimum, two_level
from ....planner.checkpoint.optimum import daly, young
from ....planner.checkpoint.system import Outcome, Schedule, System
from ....units import format_time
from .. import explain
from ..show import Answer
from .extras import EXTRAS, MODES
from .plot import draw
from .question import CheckpointQuestion
from .text import advice, fit_table, input_table, percent, plan_table

if TYPE_CHECKING:
    from ....planner.events import Fit

#: Below this efficiency a plan is none.
_WORTHLESS = 1e-3


def answer(question: CheckpointQuestion) -> Answer:
    """Work everything out."""
    inputs, notes = question.inputs, list(question.inputs.notes)
    system = inputs.system
    given = question.schedule()
    best: dict[str, Outcome | None] = dict.fromkeys(MODES)
    if given is None or system.rates[-1]:  # without a rate a schedule can be judged, not found
        best = {mode: _best(system, asynchronous=flag) for mode, flag in MODES.items()}
    chosen = best
    if given is not None:
        chosen = {}
        for mode, flag in MODES.items():
            try:
                chosen[mode] = _judge(system, given, asynchronous=flag)
            except BadInput as error:
                chosen[mode] = None
                notes.append(f"this schedule is impossible when drained in the background: {error}")
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
    for extra in EXTRAS:
        key, value, shown = extra(question, chosen)
        if shown is not None:
            numbers[key] = value
            tables.append(shown)
    return Answer(
        plan="checkpoint",
        advice=advice(system, chosen, best, judged=given is not None),
        numbers=numbers,
        tables=tables,
        draw=lambda figure: draw(figure, system, chosen, rules),
        explanation=explain.CHECKPOINT,
        notes=notes,
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
