"""How all plots look: readable in grey, the chosen point marked."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

#: Lines told apart by dashes and markers, not by colour.
STYLES: list[dict[str, Any]] = [
    {"color": "0.0", "linestyle": "-", "marker": "o"},
    {"color": "0.35", "linestyle": "--", "marker": "s"},
    {"color": "0.55", "linestyle": "-.", "marker": "^"},
    {"color": "0.25", "linestyle": ":", "marker": "D"},
    {"color": "0.7", "linestyle": "-", "marker": "v"},
]


def style(index: int, *, markers: bool = True) -> dict[str, Any]:
    """Return how line number `index` is drawn."""
    chosen = dict(STYLES[index % len(STYLES)], linewidth=1.6, markersize=5)
    if not markers:
        chosen["marker"] = ""
    return chosen


def axes(figure: Figure, title: str, x: str, y: str) -> Axes:
    """Return axes with titles; `x` and `y` name a quantity and its unit."""
    made = figure.add_subplot()
    made.set_title(title, fontsize=10, loc="left")
    made.set_xlabel(x)
    made.set_ylabel(y)
    made.grid(visible=True, color="0.9", linewidth=0.6)
    made.set_axisbelow(True)
    made.spines[["top", "right"]].set_visible(False)
    return made


def mark(on: Axes, x: float, y: float, text: str) -> None:
    """Mark the chosen point."""
    on.plot([x], [y], marker="*", markersize=15, color="0.0", markeredgecolor="1.0", zorder=5)
    on.annotate(
        text, (x, y), xytext=(8, 10), textcoords="offset points", fontsize=8,
        bbox={"boxstyle": "round,pad=0.2", "facecolor": "1.0", "edgecolor": "0.8"}, zorder=6,
    )  # fmt: skip


def plain_numbers(on: Axes, which: str = "x") -> None:
    """Write 1000, not 10^3, on a logarithmic axis."""
    axis = on.xaxis if which == "x" else on.yaxis
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter("")
