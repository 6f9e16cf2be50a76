"""A data set that four nodes read five times; one of them dies in the second epoch."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ...errors import HoldfastError
from ...testing import countfs as storages
from ...testing.countfs import CountingFS
from ...units import format_size
from ..plan import show
from . import epochs
from .epochs import EPOCHS, FATAL, FILES, NODES, OPEN_DELAY, SIZE, VICTIM, WAYS, Epoch

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_WIDTH = 50
Found = dict[str, list[Epoch]]


def why_not() -> str:
    """Tell why this demo cannot be shown here; empty if it can."""
    if reason := storages.why_not():
        return reason
    # In some containers root may not mount, which is only found out by trying.
    try:
        subprocess.run(["unshare", "--mount", "true"], check=True, capture_output=True)
        with tempfile.TemporaryDirectory(prefix="holdfast-demo-") as directory:
            backing = Path(directory, "backing")
            backing.mkdir()
            with CountingFS(backing, Path(directory, "shared"), nodes=1) as storage:
                subprocess.run([*storage.under(0), "true"], check=True, capture_output=True)
    except (HoldfastError, subprocess.CalledProcessError):
        return "file systems cannot be mounted here"
    return ""


def check_plot(plot: Path) -> None:
    """Refuse what cannot be drawn, before anybody waits for it."""
    with show.numeric("holdfast demo --plot"):
        show.check_plot(plot)


def run(plot: Path | None = None) -> None:
    """Run the demo; raises if a byte was wrong."""
    console = Console(highlight=False)
    console.print(
        f"{NODES} nodes read {FILES} files of {format_size(SIZE)} in each of {EPOCHS} "
        f"epochs, from a shared file system that takes {OPEN_DELAY} to open one. In epoch "
        f"{FATAL} node-{VICTIM} is killed, and the others restart the epoch. What happens "
        "to the files that it held:"
    )
    console.print(_legend())
    found: Found = {}
    progress = Progress(
        TextColumn("{task.description:<24}"),
        BarColumn(),
        MofNCompleteColumn(),
        console=console,
        transient=True,
    )
    with epochs.shown() as (dataset, storage), progress:
        for way in WAYS:
            task = progress.add_task(way.name, total=FILES)

            def tell(epoch: int, files: int, task: object = task, name: str = way.name) -> None:
                progress.update(
                    task,  # type: ignore[arg-type]
                    completed=files,
                    description=f"{name}, epoch {epoch}",
                )

            found[way.name] = epochs.run(way, dataset, storage, tell)
    console.print(Group("", _bars(found), "", _opens(found)))
    read = sum(epoch.read for each in found.values() for epoch in each)
    console.print(
        f"{format_size(read)} were read, and every byte was compared with what was "
        "written: all are right. The agents have ended and left nothing behind."
    )
    if plot is not None:
        show.draw_into(plot, lambda figure: _draw(figure, found))
        console.print(f"Plot written to {plot}.", markup=False)


def _legend() -> Table:
    legend = Table.grid(padding=(0, 2))
    legend.add_row("  redirect", "they are read from the shared file system in every epoch")
    legend.add_row("  recache", "the nodes that take over read each of them once and keep it")
    legend.add_row("  copies=2", "other nodes have second copies, and nothing is read")
    return legend


def _bars(found: Found) -> Table:
    """Draw the time of each epoch for the terminal."""
    longest = max(epoch.seconds for each in found.values() for epoch in each)
    table = Table(title="time per epoch", title_justify="left", box=None, padding=(0, 1))
    for column in ("", "epoch", "", "seconds"):
        table.add_column(column, justify="right" if column == "seconds" else "left")
    for name, each in found.items():
        for number, epoch in enumerate(each, 1):
            bar = ProgressBar(
                total=longest,
                completed=epoch.seconds,
                width=_WIDTH,
                complete_style="red" if number == FATAL else "green",
                finished_style="red" if number == FATAL else "green",
                style="black",
            )
            label = f"{number}, a node dies" if number == FATAL else str(number)
            table.add_row(name if number == 1 else "", label, bar, f"{epoch.seconds:.2f}")
        table.add_row("", "", Text(""), "")
    return table


def _opens(found: Found) -> Table:
    table = show.table(
        "opens that the shared file system counted",
        "",
        *(f"epoch {number}" for number in range(1, EPOCHS + 1)),
        "after the first",
    )
    for name, each in found.items():
        opens = [epoch.opens for epoch in each]
        table.add_row(name, *map(str, opens), str(sum(opens[1:])))
    return table


def _draw(figure: Figure, found: Found) -> None:
    from ... import plots  # noqa: PLC0415 - matplotlib may not be there

    title = f"Time per epoch; one of {NODES} nodes is killed in epoch {FATAL}"
    on = plots.axes(figure, title, "epoch", "seconds")
    numbers = range(1, EPOCHS + 1)
    for index, (name, each) in enumerate(found.items()):
        later = sum(epoch.opens for epoch in each[1:])
        label = f"{name}: {later} opens of the shared file system after the first epoch"
        on.plot(numbers, [epoch.seconds for epoch in each], label=label, **plots.style(index))
    on.axvline(FATAL, color="0.8", linewidth=6, zorder=0)
    on.set_xticks(numbers)
    on.set_ylim(bottom=0)
    on.legend(fontsize=8, frameon=False)
