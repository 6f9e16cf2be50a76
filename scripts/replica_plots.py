"""Draw where Replicas puts copies, with the code that puts them there; `make docs` runs it first.

usage: scripts/replica_plots.py DIRECTORY
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from holdfast.replicas.layout import Layout
from holdfast.replicas.placement import Placement
from holdfast.replicas.shares import Shares
from holdfast.replicas.version import Version

RANKS, EACH, COPIES = 4, 4, 2
ROW = 1.7  # from one to the next
#: Where a block is drawn: its column and its row.
Spot = tuple[float, float]
SUBMITTED, LOADED = COPIES, -1


def version(per_range: int, *, permute: bool) -> Version:
    """Return the paper's example: 16 blocks on 4 ranks, in 2 copies."""
    each = np.full(RANKS, EACH)
    layout = Layout(np.arange(RANKS) * EACH, each, per_range)
    hosts = np.arange(RANKS)
    place = Placement(layout.ranges, hosts, COPIES, seed=4, permute=permute, distribution="A")
    return Version(1, layout, place, np.arange(RANKS), block_bytes=64)


def spots(of: Version) -> dict[tuple[int, int], Spot]:
    """Return where each copy of each block is drawn: (block, copy) -> spot."""
    ranges = np.arange(of.layout.ranges)
    slots, order = of.placement.first_slots(ranges), of.placement.order(ranges)
    _, first, count = of.layout.whole(ranges)
    found: dict[tuple[int, int], Spot] = {}
    for copy in range(COPIES):
        column = [EACH * rank + rank / 2 for rank in range(RANKS)]
        for number in np.argsort(order).tolist():
            rank = int(slots[number, copy])
            for block in range(int(first[number]), int(first[number] + count[number])):
                found[block, copy] = column[rank], COPIES - 1 - copy
                column[rank] += 1
    return found


def cell(on: Axes, spot: Spot, text: object, *, marked: bool = False, dead: bool = False) -> None:
    """Draw a block."""
    face = "0.45" if marked else "0.95"
    on.add_patch(
        Rectangle(
            (spot[0], ROW * spot[1]), 1, 0.7, facecolor=face, edgecolor="0.3",
            hatch="////" if dead else "", linewidth=0.8,
        )
    )  # fmt: skip
    colour = "1.0" if marked else "0.0"
    on.text(
        spot[0] + 0.5, ROW * spot[1] + 0.35, str(text), ha="center", va="center", fontsize=9,
        color=colour, fontweight="bold" if marked else "normal",
    )  # fmt: skip


def arrow(on: Axes, start: Spot, end: Spot, width: float, line: str, shade: str) -> None:
    """Draw from the lower edge of `start` to the upper edge of `end`, each of `width` blocks."""
    on.annotate(
        "", (end[0] + width / 2, ROW * end[1] + 0.72),
        (start[0] + width / 2, ROW * start[1] - 0.02),
        arrowprops={"arrowstyle": "-|>", "linestyle": line, "color": shade, "linewidth": 1.2},
    )  # fmt: skip


def frame(on: Axes, rows: dict[int, str]) -> None:
    """Name ranks and rows."""
    top = max(rows)
    for rank in range(RANKS):
        middle = EACH * rank + rank / 2 + EACH / 2
        on.text(middle, ROW * top + 0.95, f"rank {rank}", ha="center", fontsize=10)
    for row, name in rows.items():
        on.text(-0.3, ROW * row + 0.35, name, ha="right", va="center", fontsize=9)
    on.set_xlim(-4.2, EACH * RANKS + RANKS / 2)
    on.set_ylim(ROW * min(rows) - 0.2, ROW * top + 1.4)
    on.axis("off")


def in_order(on: Axes) -> None:
    """Draw the paper's Figure 1."""
    for (block, _), spot in spots(version(1, permute=False)).items():
        cell(on, spot, block)
    frame(on, {1: "copy 1", 0: "copy 2"})


def permuted(on: Axes) -> None:
    """Draw the paper's Figure 2: what rank 1 sends, and how the others get what rank 0 had."""
    of = version(2, permute=True)
    where = spots(of)
    for block in range(RANKS * EACH):
        rank = block // EACH
        cell(on, (block + rank / 2, SUBMITTED), block, marked=rank == 0)
    for (block, _), spot in where.items():
        cell(on, spot, block, marked=block < EACH, dead=spot[0] < EACH)
    for number in of.layout.ranges_of(1).tolist():
        _, first, count = of.layout.whole(np.array([number]))
        for copy, line in enumerate(("-", "--")):
            start = (int(first[0]) + 0.5, SUBMITTED)
            arrow(on, start, where[int(first[0]), copy], int(count[0]), line, "0.6")

    of.lose(np.array([0]))
    ranks = np.array([-1, 0, 1, 2])
    for new, gained in enumerate(Shares([EACH] * RANKS).lose([0])):
        blocks = [block for low, count in gained for block in range(low, low + count)]
        ranges = of.layout.range_at(np.array(blocks))
        servers = of.servers(ranges, np.full(len(blocks), new), ranks)
        for place, (block, server) in enumerate(zip(blocks, servers.tolist(), strict=True)):
            spot = (EACH * (new + 1) + (new + 1) / 2 + place, LOADED)
            cell(on, spot, block, marked=True)
            slots = ranks[of.placement.first_slots(of.layout.range_at(np.array([block])))[0]]
            arrow(on, where[block, slots.tolist().index(server)], spot, 1, "-", "0.0")
    rows = {SUBMITTED: "submitted", 1: "copy 1", 0: "copy 2", LOADED: "loaded after\nrank 0 died"}
    frame(on, rows)


def main() -> None:
    """Draw both."""
    directory = Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    for name, picture, height in (("in-order", in_order, 1.7), ("permuted", permuted, 3.3)):
        figure = Figure(figsize=(8, height), layout="constrained")
        FigureCanvasSVG(figure)
        picture(figure.add_subplot())
        figure.savefig(directory / f"replicas-{name}.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
