"""Many processes import the same package from a storage that serves one request at a time."""

from __future__ import annotations

import compileall
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ...bench.mount.setup import mounted
from ...bench.mount.storm import Storm, operations, watched
from ...errors import HoldfastError
from ...testing.countfs import CountingFS
from ...units import format_time
from ..plan import show

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NODES = (1, 2, 4, 8)
PROCESSES = 3
#: Of the package that is imported.
PACKAGES, MODULES = 10, 6
OPERATION = "0.25 ms"
_WIDTH = 48  # of the longest bar in the terminal


class Row(msgspec.Struct, frozen=True):
    """The storm on one number of nodes."""

    nodes: int
    direct: Storm
    holdfast: Storm


def run(plot: Path | None = None) -> None:
    """Run the demo; raises if the shared file system opened a file twice for the mounts."""
    console = Console()
    rows = []
    with tempfile.TemporaryDirectory(prefix="hf") as directory:
        backing = Path(directory, "backing")
        make_package(backing)
        for nodes in NODES:
            with console.status(f"{nodes * PROCESSES} processes on {nodes} nodes import"):
                rows.append(_row(backing, Path(directory, "shared"), nodes))
    console.print(_table(rows))
    console.print(_bars(rows))
    again = [row.nodes for row in rows if row.holdfast.opens > 1 or row.holdfast.listings > 1]
    if again:
        raise HoldfastError(
            f"on {again} nodes the shared file system was asked twice for the same file "
            "or directory"
        )
    console.print(_told(rows[-1]), soft_wrap=True)
    if plot is not None:
        show.draw_into(plot, lambda figure: _draw(figure, rows))
        console.print(f"Plot written to {plot}.", markup=False)


def make_package(top: Path) -> None:
    """Make a package of many small modules, compiled."""
    body = "\n".join(f"def f{number}(x):\n    return x + {number}\n" for number in range(20))
    for package in range(PACKAGES):
        place = top / "storm" / f"part{package:02}"
        place.mkdir(parents=True)
        names = [f"module{number:02}" for number in range(MODULES)]
        for name in names:
            (place / f"{name}.py").write_text(body)
        (place / "__init__.py").write_text("".join(f"from . import {name}\n" for name in names))
    parts = "".join(f"from . import part{package:02}\n" for package in range(PACKAGES))
    (top / "storm" / "__init__.py").write_text(parts)
    compileall.compile_dir(top, quiet=1)


def _row(backing: Path, at: Path, nodes: int) -> Row:
    """Let the processes of some nodes import; without Holdfast first."""
    with _shown(backing, at, nodes) as shown:
        commands = [[*shown.under(node), *_importing(str(shown.at))] for node in range(nodes)]
        direct = watched(shown, [command for command in commands for _ in range(PROCESSES)])
    with _shown(backing, at, nodes) as shown, mounted(shown.at, nodes, shown) as mounts:
        commands = [_importing(mounts.path(shown.at, node)) for node in range(nodes)]
        ours = watched(shown, [command for command in commands for _ in range(PROCESSES)])
    return Row(nodes, direct, ours)


@contextmanager
def _shown(backing: Path, at: Path, nodes: int) -> Iterator[CountingFS]:
    with CountingFS(backing, at.resolve(), nodes, operation_delay=OPERATION) as shown:
        yield shown


def _importing(directory: str) -> list[str]:
    program = f"import sys; sys.path.insert(0, {directory!r}); import storm"
    return [sys.executable, "-I", "-S", "-c", program]


def _table(rows: list[Row]) -> Table:
    files = 1 + PACKAGES * (1 + MODULES)
    table = Table(
        title=(
            f"A package of {files} files, {PROCESSES} processes per node, a shared file "
            f"system that serves one request in {OPERATION}"
        )
    )
    for column in ("nodes", "processes", "from the shared file system", "requests", "with Holdfast",
                   "requests", "opens of a file, at most"):  # fmt: skip
        table.add_column(column, justify="right")
    for row in rows:
        table.add_row(
            str(row.nodes), str(row.nodes * PROCESSES), format_time(row.direct.seconds),
            f"{operations(row.direct.asked):,}", format_time(row.holdfast.seconds),
            f"{operations(row.holdfast.asked):,}", str(row.holdfast.opens),
        )  # fmt: skip
    return table


def _bars(rows: list[Row]) -> Text:
    longest = max(max(row.direct.seconds, row.holdfast.seconds) for row in rows)
    text = Text()
    for row in rows:
        for name, storm, style in (
            ("storage", row.direct, "red"),
            ("Holdfast", row.holdfast, "green"),
        ):
            nodes = f"{row.nodes:>3} {'node' if row.nodes == 1 else 'nodes'}"
            label = f"{nodes if storm is row.direct else '':<10}"
            bar = "█" * max(1, round(_WIDTH * storm.seconds / longest))
            text.append(f"{label}{name:<9}").append(bar, style).append(
                f" {format_time(storm.seconds)}\n"
            )
    return text


def _told(last: Row) -> str:
    return (
        f"{last.nodes * PROCESSES} processes took {format_time(last.direct.seconds)} with "
        f"the shared file system, which served {operations(last.direct.asked):,} "
        f"requests, and {format_time(last.holdfast.seconds)} through the mounts, for "
        f"which it served {operations(last.holdfast.asked):,}: each file was opened once, "
        "each directory listed once. The agents and mounts have ended and left nothing "
        "behind."
    )


def _draw(figure: Figure, rows: list[Row]) -> None:
    from ... import plots  # noqa: PLC0415 - matplotlib may not be there

    panels = figure.subplots(1, 2)
    titles = ("Time until all have imported", "Requests served by the shared file system")
    for on, title, unit in zip(panels, titles, ("seconds", "requests"), strict=True):
        plots.dress(on, title, f"nodes, {PROCESSES} processes on each", unit)
        for index, (label, name) in enumerate(
            (("from the shared file system", "direct"), ("with Holdfast", "holdfast"))
        ):
            storms = [getattr(row, name) for row in rows]
            values = [
                storm.seconds if unit == "seconds" else operations(storm.asked) for storm in storms
            ]
            on.plot([row.nodes for row in rows], values, label=label, **plots.style(index))
        on.set_xticks([row.nodes for row in rows], [str(row.nodes) for row in rows])
        on.set_ylim(bottom=0)
    panels[0].legend(fontsize=8)
