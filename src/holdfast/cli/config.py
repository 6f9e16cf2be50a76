"""`holdfast config show`."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from ..config import SETTINGS
from .output import AsJson, Set, print_json, resolve

app = typer.Typer(help="Settings: their values and where they come from.", no_args_is_help=True)


class Shown(msgspec.Struct, frozen=True):
    """One setting in `holdfast config show --json`."""

    name: str
    value: Any  # as it was written
    origin: str
    help: str


@app.callback()
def _config() -> None:
    pass


@app.command()
def show(
    origin: Annotated[
        bool, typer.Option("--origin", help="Show where each value comes from.")
    ] = False,
    settings: Set = None,
    as_json: AsJson = False,
) -> None:
    """Show all settings."""
    resolved = resolve(settings)
    shown = [
        Shown(name, resolved.written[name], resolved.origins[name], setting.help)
        for name, setting in SETTINGS.items()
    ]
    if as_json:
        print_json(shown)
        return
    table = Table()
    for column in ("setting", "value", *(["from"] if origin else []), "meaning"):
        table.add_column(column)
    for one in shown:
        table.add_row(one.name, str(one.value), *([one.origin] if origin else []), one.help)
    Console().print(table)
