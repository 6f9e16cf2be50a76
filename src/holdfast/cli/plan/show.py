"""What every plan answers with, and the three ways to see it: for people, as JSON, as a plot."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from ...errors import BadInput, HoldfastError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

AsJson = Annotated[bool, typer.Option("--json", help="Print the numbers as JSON.")]
PlotFile = Annotated[
    Path | None,
    typer.Option("--plot", metavar="FILE", help="Draw a plot into FILE.png or FILE.svg."),
]
Explain = Annotated[
    bool, typer.Option("--explain", help="Explain the formula and where it comes from.")
]
Seed = Annotated[int, typer.Option(help="Seed of the random numbers in simulations.")]

_OPTIONAL = ("numpy", "scipy", "matplotlib")


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A plan: advice in a sentence, the numbers behind it, how to draw and to explain them."""

    plan: str
    advice: str
    numbers: Mapping[str, Any]
    tables: list[Table]
    draw: Callable[[Figure], None]
    explanation: str
    notes: list[str] = field(default_factory=list)


@contextmanager
def numeric(command: str = "holdfast plan") -> Iterator[None]:
    """Turn a missing numpy, scipy or matplotlib into a sentence that says what to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _OPTIONAL:
            raise
        raise HoldfastError(
            f"`{command}` needs {error.name}, which is not installed; "
            f"try: pip install 'holdfast[plan]'"
        ) from None


def table(title: str, *columns: str) -> Table:
    """Return an empty table; all columns but the first are numbers."""
    made = Table(title=title, title_justify="left", title_style="bold")
    for index, column in enumerate(columns):
        made.add_column(column, justify="left" if index == 0 else "right")
    return made


def show(answer: Answer, *, as_json: bool, plot: Path | None, explain: bool) -> None:
    """Print `answer` the way that was asked for, and write its plot."""
    if plot is not None:
        draw_into(plot, answer.draw)
    if as_json:
        _print_json(answer, explain=explain)
    else:
        _print_people(answer, plot, explain=explain)


def _print_json(answer: Answer, *, explain: bool) -> None:
    document = {"plan": answer.plan, "advice": answer.advice, "notes": answer.notes}
    document |= answer.numbers
    if explain:
        document["explanation"] = answer.explanation
    encoded = msgspec.json.encode(document, enc_hook=lambda value: value.item())
    sys.stdout.write(msgspec.json.format(encoded, indent=2).decode() + "\n")


def _print_people(answer: Answer, plot: Path | None, *, explain: bool) -> None:
    console = Console(highlight=False, soft_wrap=True)
    console.print(answer.advice, style="bold", markup=False)
    for each in answer.tables:
        console.print()
        console.print(each, soft_wrap=False)
    for note in answer.notes:
        console.print(f"Note: {note}.", markup=False)
    if explain:
        console.print()
        console.print(answer.explanation, markup=False)
    if plot is not None:
        console.print(f"Plot written to {plot}.", markup=False)


def check_plot(path: Path) -> None:
    """Refuse a file that no plot can be written to, as far as that is seen before."""
    if path.suffix.lower() not in (".png", ".svg"):
        raise BadInput(f"{path} is neither .png nor .svg; give the plot one of these endings")
    if not path.parent.is_dir():
        raise BadInput(f"cannot write the plot to {path}: there is no such directory")
    import matplotlib.figure  # noqa: F401 - whether it is there


def draw_into(path: Path, draw: Callable[[Figure], None]) -> None:
    """Write a plot to a file."""
    check_plot(path)
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.4), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    draw(figure)
    try:
        figure.savefig(path)
    except OSError as error:
        raise BadInput(f"cannot write the plot to {path}: {error.strerror}") from None
