"""`holdfast plan`: models of what failures cost, each with advice, numbers and a plot.

Numpy, scipy and matplotlib are imported inside the commands: other commands do not need them.
"""

from __future__ import annotations

import typer

from .checkpoint.command import checkpoint
from .copies import copies
from .failures import failures
from .imports import imports
from .ring import ring
from .training import training

app = typer.Typer(
    help="Estimate what failures will cost, and which settings to choose.", no_args_is_help=True
)
app.command()(checkpoint)
app.command()(ring)
app.command()(copies)
app.command()(training)
app.command("import")(imports)
app.command()(failures)
