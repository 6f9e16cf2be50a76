"""The answer of `holdfast plan training`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ... import plots
from ...errors import BadInput
from ...planner.training import POLICIES, Training, epoch, mean_total, train
from ...units import format_time
from . import explain
from .show import Answer, table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NAMES = {
    "abort": "starting again",
    "redirect": "reading lost files from the shared file system each time",
    "recache": "caching lost files again on other nodes",
    "two copies": "keeping two copies of each file",
}


@dataclass(frozen=True)
class TrainingQuestion:
    """What was asked."""

    jobs: list[Training]
    failures: int
    times: list[float] | None
    runs: int
    seed: int


def answer(question: TrainingQuestion) -> Answer:
    """Simulate every number of nodes under every policy."""
    if question.runs < 2:
        raise BadInput(f"cannot average {question.runs} runs; use at least 2, better 20")
    if question.failures < 0:
        raise BadInput(f"{question.failures} failures; the number cannot be negative")
    rng = np.random.default_rng(question.seed)
    rows = [_row(job, question, rng) for job in question.jobs]
    count = question.failures if question.times is None else len(question.times)
    largest = rows[-1]
    best = min(("redirect", "recache"), key=lambda policy: largest["total_s"][policy])
    others = ", ".join(
        f"{_NAMES[policy]} {_more(largest, policy)}" for policy in POLICIES[1:] if policy != best
    )
    advice = (
        f"On {largest['nodes']} nodes that lose {count}, prefer {_NAMES[best]}: training takes "
        f"{format_time(largest['total_s'][best])}, {_more(largest, best)} than the "
        f"{format_time(largest['total_s']['none'])} without a failure ({others})."
    )
    made = table(f"{question.jobs[0].epochs} epochs, {count} nodes lost", "nodes", *POLICIES)
    for row in rows:
        made.add_row(
            str(row["nodes"]), format_time(row["total_s"]["none"]),
            *(f"{format_time(row['total_s'][p])} ({row['more'][p]:+.0%})" for p in POLICIES[1:]),
        )  # fmt: skip
    per_epoch = table(
        "One epoch", "nodes", "nothing cached", "all cached", "one node's files missing"
    )
    for row in rows:
        per_epoch.add_row(str(row["nodes"]), *(format_time(t) for t in row["epoch_s"].values()))
    return Answer(
        plan="training",
        advice=advice,
        numbers={"failures": count, "policy": best, "runs": question.runs, "nodes": rows},
        tables=[made, per_epoch],
        draw=lambda figure: draw(figure, rows, best),
        explanation=explain.TRAINING,
    )


def _more(row: dict[str, Any], policy: str) -> str:
    share = row["more"][policy]
    return f"{abs(share):.0%} {'more' if share >= 0 else 'less'}"


def _row(job: Training, question: TrainingQuestion, rng: np.random.Generator) -> dict[str, Any]:
    totals, errors = {}, {}
    for policy in POLICIES:
        if question.times is None:
            seen = mean_total(job, policy, question.failures, question.runs, rng)
            totals[policy], errors[policy] = seen.mean, seen.error
        else:
            runs = [train(job, policy, question.times, rng).total for _ in range(question.runs)]
            totals[policy] = float(np.mean(runs))
            errors[policy] = float(np.std(runs, ddof=1)) / question.runs**0.5
    return {
        "nodes": job.nodes,
        "total_s": totals,
        "standard_error_s": errors,
        "more": {policy: totals[policy] / totals["none"] - 1 for policy in POLICIES},
        "epoch_s": {
            "cold": epoch(job, 1.0, rng),
            "cached": epoch(job, 0.0, rng),
            "one_node_missing": epoch(job, 1 / job.nodes, rng),
        },
    }


def draw(figure: Figure, rows: list[dict[str, Any]], best: str) -> None:
    """Draw the total time by nodes, one line per policy."""
    on = plots.axes(
        figure,
        "Time to train, by what is done about lost nodes",
        "nodes",
        "training time (minutes)",
    )
    nodes = [row["nodes"] for row in rows]
    labels = {"none": "no failure"}
    for index, policy in enumerate(POLICIES):
        on.plot(
            nodes, [row["total_s"][policy] / 60 for row in rows],
            label=labels.get(policy, policy), **plots.style(index),
        )  # fmt: skip
    last = rows[-1]
    minutes = last["total_s"][best] / 60
    plots.mark(on, last["nodes"], minutes, f"chosen: {best}\n{minutes:.3g} min", below=True)
    on.set_xscale("log", base=2)
    on.set_yscale("log")
    plots.plain_numbers(on)
    plots.plain_numbers(on, "y")
    on.set_xlim(right=nodes[-1] * 2)
    on.set_xticks(nodes)
    on.legend(fontsize=8, framealpha=0.9)
