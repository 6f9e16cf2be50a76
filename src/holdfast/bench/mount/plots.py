"""Draws the Copper paper's Figure 3 from a report of `holdfast bench mount`."""

from __future__ import annotations

import re
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure as Drawing

from ... import plots
from ...units import format_size, parse_size
from ..figures import Report

_TRIP = re.compile(r"round trip of (.+) from depth (\d)")


def draw(report: Report, directory: Path) -> None:
    """Write the picture of the round trips, if there were any, into `directory`."""
    lines: dict[int, list[tuple[int, float]]] = {}
    for figure in report.figures:
        if (found := _TRIP.fullmatch(figure.name)) is not None and figure.value is not None:
            lines.setdefault(int(found[2]), []).append((parse_size(found[1]), figure.value))
    if not lines:
        return  # nothing could be measured, as the report says
    drawing = Drawing(figsize=(7, 4), layout="constrained", dpi=110)
    FigureCanvasAgg(drawing)
    title = "Round trip to the head of a tree of 16 agents and back, on one core"
    on = plots.axes(drawing, title, "bytes that come back", "time (µs)")
    depths = [depth for depth in sorted(lines) if depth > 0]
    for index, depth in enumerate(depths):
        points = sorted(lines[depth])
        on.plot(*zip(*points, strict=True), label=f"depth {depth}", **plots.style(index))
    sizes = sorted(size for size, _ in lines[depths[0]])
    on.set_xscale("log", base=2)
    on.set_yscale("log")
    on.set_xticks(sizes[::2], [format_size(size) for size in sizes[::2]], fontsize=8)
    on.minorticks_off()
    plots.plain_numbers(on, "y")
    on.axvline(131_072, color="0.8", linewidth=1)
    on.legend(fontsize=8, loc="upper left")
    drawing.savefig(directory / "mount-round-trips.png")
