"""The answer of `holdfast plan copies`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ... import plots
from ...errors import BadInput
from ...planner.copies import (
    Copies,
    approximation,
    expected_failures,
    lost_at,
    lost_at_most,
    lost_up_to,
    quantile,
)
from ...planner.copies_simulated import mean_of, simulate
from . import explain
from .show import Answer, table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True)
class CopiesQuestion:
    """What was asked."""

    ranks: int
    failures: int | None
    copies: list[int]
    together: int
    risk: float
    trials: int
    seed: int


def answer(question: CopiesQuestion) -> Answer:
    """Judge each number of copies, and recommend the least that is safe enough."""
    plans = [Copies(question.ranks, count, question.together) for count in question.copies]
    units = plans[0].units
    failures = max(1, units // 100) if question.failures is None else question.failures
    if not 1 <= failures <= units:
        raise BadInput(f"{failures} failures of {units} ranks or nodes; give 1 to {units}")
    if question.trials == 1:
        raise BadInput("one trial says nothing about the spread; simulate at least 2")
    rng = np.random.default_rng(question.seed)
    rows, notes = [], []
    for plan in plans:
        rows.append(_judge(plan, failures, question.trials, rng))
        if not plan.exact:
            notes.append(_inexact(plan))
    safe = next((row for row in rows if row["risk"] <= question.risk), None)
    what = "ranks" if question.together == 1 else f"nodes of {question.together} ranks"
    if safe:
        many = "copy" if safe["copies"] == 1 else "copies"
        advice = (
            f"Keep {safe['copies']} {many}: if {failures} of {units} {what} fail before anything "
            f"is restored, data is lost with a chance of {'' if safe['exact'] else 'at most '}"
            f"{_chance(safe['risk'])}{_mean(safe, units)}."
        )
    else:
        advice = (
            f"None of these numbers of copies is safe enough for {failures} failures of "
            f"{units} {what}: even {rows[-1]['copies']} copies lose data with a chance of "
            f"{_chance(rows[-1]['risk'])}, above the acceptable {_chance(question.risk)}."
        )
    made = table(
        f"{failures} of {units} {what} fail", "copies", "lost by then", "at the last",
        "estimate", "until loss", "10-90 %",
        *(["simulated"] if question.trials else []),
    )  # fmt: skip
    for row in rows:
        cells = [
            f"{row['copies']}{'  <-' if row is safe else ''}", _chance(row["lost_up_to"]),
            _chance(row["lost_at"]), _chance(row["approximation"]),
            f"{row['expected_failures']:.0f}", f"{row['quantile_10']}-{row['quantile_90']}",
        ]  # fmt: skip
        if question.trials:
            seen = row["simulated"]
            cells.append(f"{seen['mean']:.0f}±{seen['standard_error']:.0f}")
        made.add_row(*cells)
    numbers = {
        "ranks": question.ranks,
        "together": question.together,
        "units": units,
        "failures": failures,
        "risk": question.risk,
        "copies": safe["copies"] if safe else None,
        "plans": rows,
    }
    return Answer(
        plan="copies",
        advice=advice,
        numbers=numbers,
        tables=[made],
        draw=lambda figure: draw(figure, plans, failures, safe),
        explanation=explain.COPIES,
        notes=notes,
    )


def _mean(row: dict[str, Any], units: int) -> str:
    """Say how many failures it takes on average, as far as that is known."""
    until = row["expected_failures"]
    if not row["exact"]:
        if row["simulated"] is None:
            return ""
        until = row["simulated"]["mean"]
    return f"; on average it takes {until:.0f} failures ({100 * until / units:.2g} %) to lose any"


def _judge(plan: Copies, failures: int, trials: int, rng: np.random.Generator) -> dict[str, Any]:
    usable = min(failures, plan.groups * plan.copies)
    row: dict[str, Any] = {
        "copies": plan.copies,
        "exact": plan.exact,
        "lost_up_to": lost_up_to(plan, usable),
        "lost_at": lost_at(plan, usable),
        "approximation": approximation(plan, failures),
        "expected_failures": expected_failures(plan),
        "quantile_10": quantile(plan, 0.1),
        "quantile_90": quantile(plan, 0.9),
        "simulated": None,
    }
    # Overlapping sets are not in the formula; the bound that counts them errs on the safe side.
    row["risk"] = row["lost_up_to"] if plan.exact else lost_at_most(plan, failures)
    if trials:
        samples = simulate(plan, trials, rng)
        seen = mean_of(samples)
        row["simulated"] = {
            "trials": trials,
            "mean": seen.mean,
            "standard_error": seen.error,
            "quantile_10": float(np.quantile(samples, 0.1)),
            "quantile_90": float(np.quantile(samples, 0.9)),
            "lost_up_to": float((samples <= failures).mean()),
        }
    return row


def _inexact(plan: Copies) -> str:
    if plan.ranks % plan.copies:
        return (
            f"{plan.copies} copies do not divide {plan.ranks} ranks: the formula is for "
            f"{plan.groups * plan.copies * plan.together} of them, but the real sets of copies "
            f"overlap and are {plan.copies} times as many, so the risk is judged by an upper "
            f"bound; --simulate shows the truth, a rank more or less avoids it"
        )
    return (
        f"nodes of {plan.together} ranks do not divide the distance of {plan.copies} copies "
        f"({plan.ranks // plan.copies} ranks), so groups share nodes and the risk is judged by "
        f"an upper bound; --simulate shows the truth"
    )


def _chance(value: float) -> str:
    if value == 0 or value >= 0.001:
        return f"{100 * value:.3g} %"
    return f"{value:.2g}"


def draw(figure: Figure, plans: list[Copies], failures: int, safe: dict[str, Any] | None) -> None:
    """Draw the chance of loss by the share that failed, one line per number of copies."""
    units = plans[0].units
    on = plots.axes(
        figure,
        f"Chance that the last copy of something is gone ({units} ranks or nodes)",
        "failed (% of all)",
        "chance that data is lost",
    )
    shares = np.unique(np.geomspace(1, units, 70).round().astype(int))
    for index, plan in enumerate(plans):
        points = [min(int(f), plan.groups * plan.copies) for f in shares]
        chances = [lost_up_to(plan, f) or np.nan for f in points]
        label = f"{plan.copies} {'copy' if plan.copies == 1 else 'copies'}"
        on.plot(100 * shares / units, chances, label=label, markevery=6, **plots.style(index))
    if safe:
        plots.mark(
            on, 100 * failures / units, max(safe["lost_up_to"], 1e-12),
            f"{failures} failures, {safe['copies']} copies: {_chance(safe['lost_up_to'])}",
        )  # fmt: skip
    on.set_xscale("log")
    on.set_yscale("log")
    on.set_ylim(1e-12, 2)
    plots.plain_numbers(on)
    on.legend(fontsize=8, loc="lower right", framealpha=0.9)
