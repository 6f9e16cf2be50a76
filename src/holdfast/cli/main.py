"""The `holdfast` command: one module per subcommand, errors as one sentence and an exit code."""

from __future__ import annotations

import sys
from typing import NoReturn

import typer

from .. import __version__
from ..errors import HoldfastError
from . import bench, config, demo, session
from .output import AsJson, print_json

app = typer.Typer(
    name="holdfast",
    help="Keeps the bytes of a job close to its processes, and keeps them there when nodes die.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(session.up)
app.command()(session.down)
app.command()(session.status)
app.command()(demo.demo)
app.add_typer(bench.app, name="bench")
app.add_typer(config.app, name="config")


@app.command()
def version(as_json: AsJson = False) -> None:
    """Print the version."""
    if as_json:
        print_json({"version": __version__})
    else:
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
