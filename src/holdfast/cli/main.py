"""The `holdfast` command: one module per subcommand, errors as one sentence and an exit code."""

from __future__ import annotations

import sys
from typing import Annotated, NoReturn

import typer

from .. import __version__
from ..errors import HoldfastError
from . import config, demo, drill, files, mount, plan, run, session
from .bench import bench
from .events import events
from .output import AsJson, print_json, sentence
from .status import status

app = typer.Typer(
    name="holdfast",
    help="Keeps the bytes of a job close to its processes, and keeps them there when nodes die.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(session.up)
app.command()(session.down)
app.command()(status)
app.command()(events)
app.command(context_settings={"allow_interspersed_args": False})(run.run)
app.command()(mount.mount)
app.command()(mount.umount)
app.command()(files.warm)
app.command()(files.refresh)
app.command()(demo.demo)
app.command()(bench)
app.add_typer(config.app, name="config")
app.add_typer(drill.app, name="drill")
app.add_typer(plan.app, name="plan")


def _print_version(wanted: bool) -> None:
    if wanted:
        version()
        raise typer.Exit


@app.callback()
def _options(
    show: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    pass


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
    except OSError as error:
        print(f"holdfast: {sentence(error)}", file=sys.stderr)
        sys.exit(HoldfastError.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
    sys.exit(0)
