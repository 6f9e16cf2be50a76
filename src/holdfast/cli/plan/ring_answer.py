"""The answer of `holdfast plan ring`."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ... import plots
from ..._core import Ring
from ...errors import BadInput
from ...planner.ring import RingSetting, Takeover, enough, expected_receivers, memory, simulate
from ...units import format_size
from . import explain
from .show import Answer, table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: What the paper reports for 1,024 nodes (figure 6(b), text): receivers by virtual nodes.
PAPER = {10: 3.0, 1000: 300.0}
_PAPER_NOTE = (
    "the FT-Cache paper reports 3 receivers at 10 virtual nodes and near 300 at 1,000; "
    "--explain and docs/models/ring.md say what explains the difference"
)
_LOOKUPS = 2000


@dataclass(frozen=True, kw_only=True)
class RingQuestion:
    """What was asked."""

    nodes: int
    files: int
    virtual_nodes: list[int]
    trials: int
    slack: float
    labels: str
    label_hash: str
    seed: int


def answer(question: RingQuestion) -> Answer:
    """Simulate every setting, and recommend one."""
    if question.trials < 2:
        raise BadInput(f"cannot simulate {question.trials} trials; use at least 2, better 500")
    rng = np.random.default_rng(question.seed)
    settings = [
        RingSetting(question.nodes, count, question.files, question.labels, question.label_hash)
        for count in question.virtual_nodes
    ]
    results = [simulate(setting, question.trials, rng) for setting in settings]
    best = enough(results, question.slack)
    lookups = {setting.virtual_nodes: _lookup(setting) for setting in settings}
    made = table(
        "One node fails", "virtual", "receivers", "files each", "most", "busiest", "memory",
        "lookup",
    )  # fmt: skip
    rows = []
    for result in results:
        count = result.setting.virtual_nodes
        made.add_row(
            f"{count}{'  <-' if result is best else ''}",
            f"{result.receivers.mean():.1f}±{result.receivers.std():.1f}",
            f"{result.per_receiver.mean():.1f}±{result.per_receiver.std():.1f}",
            f"{result.most.mean():.0f}",
            f"{100 * (result.busiest - 1):+.0f} %",
            format_size(memory(result.setting)),
            f"{1e9 * lookups[count]:.0f} ns",
        )
        rows.append(_numbers(result, lookups[count]))
    count = best.setting.virtual_nodes
    advice = (
        f"Use {count} virtual nodes per node: when one of {question.nodes} nodes fails, its files "
        f"go to about {best.receivers.mean():.0f} others ({best.per_receiver.mean():.1f} each), "
        f"the busiest node has {100 * (best.busiest - 1):.0f} % more than the average, and the "
        f"ring takes {format_size(memory(best.setting))} in every process that holds it."
    )
    numbers = {
        "nodes": question.nodes,
        "files": question.files,
        "trials": question.trials,
        "labels": question.labels,
        "hash": question.label_hash,
        "virtual_nodes": count,
        "settings": rows,
        "paper": {str(number): receivers for number, receivers in PAPER.items()},
    }
    return Answer(
        plan="ring",
        advice=advice,
        numbers=numbers,
        tables=[made],
        draw=lambda figure: draw(figure, results, best),
        explanation=explain.RING,
        notes=[_PAPER_NOTE] if question.nodes == 1024 else [],
    )


def _numbers(result: Takeover, lookup: float) -> dict[str, float]:
    return {
        "virtual_nodes": result.setting.virtual_nodes,
        "receivers_mean": result.receivers.mean(),
        "receivers_std": result.receivers.std(),
        "receivers_expected": expected_receivers(result.setting),
        "neighbours_mean": result.neighbours.mean(),
        "files_per_receiver_mean": result.per_receiver.mean(),
        "files_per_receiver_std": result.per_receiver.std(),
        "most_files_mean": result.most.mean(),
        "busiest": result.busiest,
        "idlest": result.idlest,
        "memory_bytes": memory(result.setting),
        "lookup_s": lookup,
    }


def _lookup(setting: RingSetting) -> float:
    """Measure one lookup on this machine, on a real ring of that size."""
    ring = Ring([f"node{number}" for number in range(setting.nodes)], setting.virtual_nodes)
    keys = [f"train/{number:06}".encode() for number in range(_LOOKUPS)]
    passes = []
    for _ in range(5):
        start = time.perf_counter()
        for key in keys:
            ring.owners(key)
        passes.append(time.perf_counter() - start)
    return min(passes) / _LOOKUPS  # the least disturbed


def draw(figure: Figure, results: list[Takeover], best: Takeover | None) -> None:
    """Draw receivers and files per receiver by virtual nodes, as figure 6(b) does."""
    setting = results[0].setting
    on = plots.axes(
        figure,
        f"Who takes over when one of {setting.nodes} nodes fails ({setting.files} files)",
        "virtual nodes per node",
        "nodes that receive files",
    )
    counts = [result.setting.virtual_nodes for result in results]
    on.errorbar(
        counts, [result.receivers.mean() for result in results],
        yerr=[result.receivers.std() for result in results], capsize=3,
        label="receivers (bars: standard deviation)", **plots.style(0),
    )  # fmt: skip
    other = on.twinx()
    other.errorbar(
        counts, [result.per_receiver.mean() for result in results],
        yerr=[result.per_receiver.std() for result in results], capsize=3,
        label="files per receiver (right axis)", **plots.style(1),
    )  # fmt: skip
    other.set_ylabel("files per receiver")
    other.set_ylim(bottom=0)
    other.spines["top"].set_visible(False)
    if setting.nodes == 1024:
        on.plot(
            list(PAPER), list(PAPER.values()), "x", color="0.3", markersize=9, markeredgewidth=2,
            label="receivers, as the paper reports",
        )  # fmt: skip
    if best is not None:
        count = best.setting.virtual_nodes
        plots.mark(on, count, float(best.receivers.mean()), f"chosen: {count}", below=True)
    on.set_xscale("log")
    plots.plain_numbers(on)
    on.set_ylim(bottom=0)
    handles = [*on.get_legend_handles_labels()[0], *other.get_legend_handles_labels()[0]]
    on.legend(handles=handles, fontsize=8, loc="upper center", framealpha=0.9)
