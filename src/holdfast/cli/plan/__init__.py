"""`holdfast plan`: models of what failures cost, each with advice, numbers and a plot.

Numpy, scipy and matplotlib are imported inside the commands: other commands do not need them.
"""

from __future__ import annotations

import typer

from .checkpoint import checkpoint

app = typer.Typer(
    help="Say what failures will cost, and which settings to choose.", no_args_is_help=True
)
app.command()(checkpoint)
