"""The answer of `holdfast plan import`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ... import plots
from ...planner.imports import Import, broadcast, cached, calibrated, direct, pays_from
from ...units import format_time
from . import explain
from .show import Answer, table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def answer(job: Import, nodes: list[int], measured: tuple[int, float] | None) -> Answer:
    """Work out load times by nodes."""
    if measured is not None:
        job = calibrated(job, *measured)
    rows = [
        {
            "nodes": count,
            "direct_s": direct(job, count),
            "broadcast_s": broadcast(job, count),
            "cached_s": cached(job, count),
            "node_hours_saved": count * (direct(job, count) - broadcast(job, count)) / 3600,
        }
        for count in nodes
    ]
    pays = pays_from(job)
    last = rows[-1]
    if last["broadcast_s"] < last["direct_s"]:
        advice = (
            f"Broadcast: on {last['nodes']} nodes loading takes {format_time(last['broadcast_s'])} "
            f"instead of {format_time(last['direct_s'])}, which saves "
            f"{_hours(last['node_hours_saved'])} node hours per start; it pays from about "
            f"{pays} {'node' if pays == 1 else 'nodes'} on."
        )
    else:
        advice = (
            f"Broadcasting does not pay: up to {last['nodes']} nodes the shared file system serves "
            f"the program in {format_time(last['direct_s'])}, and a tree would take "
            f"{format_time(last['broadcast_s'])}."
        )
    made = table("Loading the program", "nodes", "direct", "broadcast", "again, cached", "saved")
    for row in rows:
        made.add_row(
            str(row["nodes"]), format_time(row["direct_s"]), format_time(row["broadcast_s"]),
            format_time(row["cached_s"]), f"{_hours(row['node_hours_saved'])} node h",
        )  # fmt: skip
    numbers = {
        "storage_operations_per_s": job.storage_operations,
        "pays_from_nodes": pays,
        "nodes": rows,
    }
    notes = []
    if measured is not None:
        notes.append(
            f"{measured[0]} nodes in {format_time(measured[1])} mean that the shared file system "
            f"serves {job.storage_operations:.3g} calls per second"
        )
    return Answer(
        plan="import",
        advice=advice,
        numbers=numbers,
        tables=[made],
        draw=lambda figure: draw(figure, job, rows, measured),
        explanation=explain.IMPORT,
        notes=notes,
    )


def _hours(hours: float) -> str:
    return f"{hours:,.0f}" if abs(hours) >= 100 else f"{hours:.2g}"


def draw(
    figure: Figure, job: Import, rows: list[dict[str, Any]], measured: tuple[int, float] | None
) -> None:
    """Draw load time by nodes."""
    on = plots.axes(
        figure,
        f"Loading {job.files} files by {job.processes} processes on every node",
        "nodes",
        "time until all have loaded (s)",
    )
    nodes = [row["nodes"] for row in rows]
    for index, (key, label) in enumerate(
        (("direct_s", "from the shared file system"), ("broadcast_s", "broadcast down a tree"),
         ("cached_s", "again, cached on the nodes"))
    ):  # fmt: skip
        on.plot(nodes, [row[key] for row in rows], label=label, **plots.style(index))
    if measured is not None:
        on.plot(*measured, "x", color="0.3", markersize=9, markeredgewidth=2, label="measured")
    key = min(("direct_s", "broadcast_s"), key=lambda name: rows[-1][name])
    seconds = rows[-1][key]
    plots.mark(on, nodes[-1], seconds, f"chosen:\n{seconds:.3g} s", below=True)
    on.set_xscale("log", base=2)
    on.set_yscale("log")
    plots.plain_numbers(on)
    plots.plain_numbers(on, "y")
    on.set_xlim(right=nodes[-1] * 2)
    on.set_xticks(nodes)
    on.legend(fontsize=8, framealpha=0.9)
