"""How all plots look: readable in grey, the chosen point marked."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

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
    dress(made, title, x, y)
    return made


def dress(on: Axes, title: str, x: str, y: str) -> None:
    """Give axes their titles and a light grid."""
    on.set_title(title, fontsize=10, loc="left")
    on.set_xlabel(x)
    on.set_ylabel(y)
    on.grid(visible=True, color="0.9", linewidth=0.6)
    on.set_axisbelow(True)
    on.spines[["top", "right"]].set_visible(False)


def mark(on: Axes, x: float, y: float, text: str, *, below: bool = False) -> None:
    """Mark the chosen point."""
    on.plot([x], [y], marker="*", markersize=15, color="0.0", markeredgecolor="1.0", zorder=5)
    on.annotate(
        text, (x, y), xytext=(8, -18 if below else 10), textcoords="offset points", fontsize=8,
        bbox={"boxstyle": "round,pad=0.2", "facecolor": "1.0", "edgecolor": "0.8"}, zorder=6,
    )  # fmt: skip


def plain_numbers(on: Axes, which: str = "x") -> None:
    """Write 1000, not 10^3, on a logarithmic axis."""
    axis = on.xaxis if which == "x" else on.yaxis
    low, high = axis.get_data_interval()
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 1e4 * low else (1,)))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter("")
