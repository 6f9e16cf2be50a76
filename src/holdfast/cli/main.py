"""The `holdfast` command: one module per subcommand, errors as one sentence and an exit code."""

from __future__ import annotations

import sys
from typing import NoReturn

import typer

from .. import __version__
from ..errors import HoldfastError
from . import bench, plan

app = typer.Typer(
    name="holdfast",
    help="Keeps the bytes of a job close to its processes, and keeps them there when nodes die.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


app.add_typer(bench.app, name="bench")
app.add_typer(plan.app, name="plan")


@app.callback()
def _root() -> None:
    pass


@app.command()
def version() -> None:
    """Print the version."""
    print(f"holdfast {__version__}")


def main() -> NoReturn:
    """Run the command line; a failure is one sentence on standard error and an exit code."""
    try:
        app()
    except HoldfastError as error:
        print(f"holdfast: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
    sys.exit(0)
