"""The answer of `holdfast plan failures`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.table import Table

from ... import plots
from ...errors import BadInput
from ...planner.jobs import KIND_NAMES, Analysis, Bin, LoggedJob, analyse
from ...units import format_time
from . import explain
from .show import Answer, table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_YEAR = 365.25 * 86400


def answer(jobs: list[LoggedJob], nodes: int | None, edges: list[float] | None) -> Answer:
    """Analyse a log of jobs."""
    found = analyse(jobs, edges)
    if nodes is not None and nodes < 1:
        raise BadInput(f"--nodes is {nodes}; a job has at least 1")
    size = nodes or max(job.nodes for job in jobs)
    rate = found.node_failures
    between = 1 / (rate.plan * size)
    sure = f"95 %: {format_time(1 / (rate.high * size))} to " + (
        format_time(1 / (rate.low * size)) if rate.low else "never"
    )
    advice = (
        f"{100 * found.failures / found.jobs:.1f} % of {found.jobs} jobs failed, after "
        f"{format_time(found.mean_elapsed)} on average; a node fails every "
        f"{1 / rate.plan / _YEAR:.3g} years, so a job on {size} nodes loses one every "
        f"{format_time(between)} ({sure}): plan with --mtbf {_plain(between)}."
    )
    notes = []
    if not rate.count:
        notes.append(
            "no node failure was seen; the rate is the one at which that is as likely as not"
        )
    if rate.count < 10 and rate.count:
        notes.append(f"only {rate.count} node failures were seen: the interval is wide")
    return Answer(
        plan="failures",
        advice=advice,
        numbers=_numbers(found, size),
        tables=[
            _kinds(found),
            _classes("By job size", "nodes", found.by_nodes, lambda value: f"{value:.0f}"),
            _classes("By elapsed time", "elapsed", found.by_elapsed, format_time),
            _weeks(found),
        ],
        draw=lambda figure: draw(figure, found, size),
        explanation=explain.FAILURES,
        notes=notes,
    )


def _plain(seconds: float) -> str:
    """Write a time so that it can be typed again."""
    return f"{seconds / 3600:.3g}h" if seconds >= 3600 else f"{seconds:.0f}s"


def _kinds(found: Analysis) -> Table:
    made = table("Failures by kind", "kind", "count", "of failures", "of jobs")
    made.add_row("all jobs", str(found.jobs), "", "100 %")
    share = found.failures / found.jobs
    made.add_row("all failures", str(found.failures), "100 %", f"{100 * share:.2f} %")
    for kind, part in found.kinds.items():
        made.add_row(
            kind, str(part.count), f"{100 * part.of_failures:.2f} %", f"{100 * part.of_jobs:.2f} %"
        )
    return made


def _classes(title: str, column: str, bins: list[Bin], write: Any) -> Table:
    made = table(f"{title}: share of the failures", column, "jobs", "failed", *KIND_NAMES)
    for each in bins:
        failed = sum(part.count for part in each.kinds.values())
        made.add_row(
            f"{write(each.low)} to {write(each.high)}", str(each.jobs),
            f"{100 * failed / each.jobs:.1f} %",
            *(f"{100 * each.kinds[kind].of_failures:.1f} %" for kind in KIND_NAMES),
        )  # fmt: skip
    return made


def _weeks(found: Analysis) -> Table:
    made = table("By week: how long failed jobs had run", "week", *KIND_NAMES)
    for week, kinds in found.weekly.items():
        made.add_row(
            week, *(format_time(kinds[kind]) if kind in kinds else "" for kind in KIND_NAMES)
        )
    return made


def _numbers(found: Analysis, size: int) -> dict[str, Any]:
    rate = found.node_failures
    return {
        "jobs": found.jobs,
        "failures": found.failures,
        "kinds": found.kinds,
        "by_nodes": found.by_nodes,
        "by_elapsed": found.by_elapsed,
        "weekly_mean_elapsed_s": found.weekly,
        "mean_elapsed_s": found.mean_elapsed,
        "node_seconds": found.node_seconds,
        "node_failures": rate,
        "job_nodes": size,
        "job_mtbf_s": 1 / (rate.plan * size),
        "job_mtbf_low_s": 1 / (rate.high * size),
        "job_mtbf_high_s": 1 / (rate.low * size) if rate.low else None,
    }


def draw(figure: Figure, found: Analysis, size: int) -> None:
    """Draw the kinds of failures by job size, and how long failed jobs had run, by week."""
    left, right = figure.subplots(1, 2)
    bottoms = [0.0] * len(found.by_nodes)
    places = range(len(found.by_nodes))
    for kind, shade, hatch in zip(
        KIND_NAMES, ("0.15", "0.55", "0.85"), ("", "//", ".."), strict=True
    ):
        heights = [100 * each.kinds[kind].of_failures for each in found.by_nodes]
        left.bar(
            places, heights, bottom=bottoms, color=shade, hatch=hatch, edgecolor="1.0", label=kind
        )
        bottoms = [a + b for a, b in zip(bottoms, heights, strict=True)]
    left.set_xticks(
        list(places), [f"{each.low:.0f}" for each in found.by_nodes], rotation=45, fontsize=8
    )
    plots.dress(left, "Kinds of failures", "nodes of the job (from)", "share of the failures (%)")
    mine = next((n for n, each in enumerate(found.by_nodes) if each.low <= size < each.high), None)
    if mine is not None:
        plots.mark(left, mine, 101, f"a job of {size} nodes")
        left.set_ylim(0, 118)
    figure.legend(*left.get_legend_handles_labels(), fontsize=8, loc="outside lower left", ncols=3)
    weeks = sorted(found.weekly)
    for index, kind in enumerate(KIND_NAMES):
        points = [
            (n, found.weekly[w][kind] / 60) for n, w in enumerate(weeks) if kind in found.weekly[w]
        ]
        if points:
            right.plot(*zip(*points, strict=True), label=kind, **plots.style(index))
    right.axhline(found.mean_elapsed / 60, color="0.4", linestyle="--", linewidth=1)
    plots.dress(
        right,
        f"Failed jobs ran (mean {found.mean_elapsed / 60:.0f} min)",
        "week of the log",
        "mean elapsed (minutes)",
    )
    right.set_ylim(bottom=0)
    figure.legend(
        *right.get_legend_handles_labels(), fontsize=8, loc="outside lower right", ncols=3
    )
