"""Draws the ReStore paper's Figures 4a, 4b and 7 from a report of `holdfast bench replicas`."""

from __future__ import annotations

import re
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure as Drawing

from ... import plots
from ...replicas.replicas import RANGE_BYTES
from ...units import format_size, parse_size
from ..figures import Report

_CALLS = ("submit", "scatter", "load 1 %", "load all")
_ORDERS = ("permuted", "in order")

Lines = dict[tuple[str, str], list[tuple[int, float]]]


def draw(report: Report, directory: Path) -> None:
    """Write a picture for each of the figures into `directory`."""
    values = {figure.name: figure.value for figure in report.figures if figure.value is not None}
    for name, picture in (("ranges", _ranges), ("ranks", _ranks), ("files", _files)):
        drawing = Drawing(figsize=(11, 3.4), layout="constrained", dpi=90)
        FigureCanvasAgg(drawing)
        picture(drawing, values)
        drawing.savefig(directory / f"replicas-{name}.png")


def _ranges(drawing: Drawing, values: dict[str, float]) -> None:
    """Figure 4a: time by the size of ranges."""
    lines = _lines(values, r"(.*), (permuted|in order), ranges of (.*)")
    default = parse_size(RANGE_BYTES)
    for on, call in _panels(drawing, lines, "bytes in a range"):
        sizes = [size for size, _ in lines[call, "permuted"]]
        on.set_xscale("log", base=2)
        on.set_xticks(sizes[::2], [format_size(size) for size in sizes[::2]], fontsize=7)
        chosen = dict(lines[call, "permuted"])[default]
        plots.mark(on, default, chosen, f"{format_size(default)}: {chosen:.3g}")


def _ranks(drawing: Drawing, values: dict[str, float]) -> None:
    """Figure 4b: time by the number of ranks, 16 MiB on each."""
    lines = _lines(values, r"(.*), (permuted|in order), (\d+) ranks")
    for on, call in _panels(drawing, lines, "ranks, on the cores of one machine"):
        numbers = [number for number, _ in lines[call, "permuted"]]
        on.set_xscale("log", base=2)
        on.set_xticks(numbers, [str(number) for number in numbers])


def _lines(values: dict[str, float], pattern: str) -> Lines:
    lines: Lines = {}
    for name, value in values.items():
        if (found := re.fullmatch(pattern, name)) is not None:
            call, order, place = found.groups()
            lines.setdefault((call, order), []).append((parse_size(place), value))
    return {key: sorted(points) for key, points in lines.items()}


def _panels(drawing: Drawing, lines: Lines, x: str) -> list[tuple[Axes, str]]:
    made = list(zip(drawing.subplots(1, len(_CALLS)), _CALLS, strict=True))
    drawing.supxlabel(x, fontsize=10)  # one for all: under each panel it would run into the next
    for on, call in made:
        plots.dress(on, call, "", "times a memcpy of all copies" if call == _CALLS[0] else "")
        for index, order in enumerate(_ORDERS):
            on.plot(*zip(*lines[call, order], strict=True), label=order, **plots.style(index))
        on.set_yscale("log")
        values = [value for order in _ORDERS for _, value in lines[call, order]]
        # At least a factor of four, so that noise does not fill the panel.
        beyond = 1.2 * max(1, 2 / (max(values) / min(values)) ** 0.5)
        on.set_ylim(min(values) / beyond, max(values) * beyond)
        plots.plain_numbers(on, "y")
    made[0][0].legend(fontsize=8)
    return made


def _files(drawing: Drawing, values: dict[str, float]) -> None:
    """Figure 7: loading from Replicas beside reading files."""
    panels = drawing.subplots(1, 2, sharey=True)
    panels[0].invert_yaxis()  # Replicas on top; the panels share the axis
    for on, share in zip(panels, ("1 %", "all"), strict=True):
        bars = {
            found[1]: value
            for name, value in values.items()
            if (found := re.fullmatch(rf"having {share}, (.*)", name)) is not None
        }
        plots.dress(on, f"{share} of 8 x 16 MiB", "ms until the last rank has it", "")
        marks = on.barh(list(bars), list(bars.values()), color=["0.2"] + ["0.7"] * (len(bars) - 1))
        on.bar_label(marks, [f"{value:.3g}" for value in bars.values()], padding=3, fontsize=8)
        on.set_xscale("log")
        on.set_xlim(min(bars.values()) / 3, max(bars.values()) * 4)
        plots.plain_numbers(on)
