"""`holdfast run`."""

from __future__ import annotations

import os
import shlex
import shutil
from typing import Annotated, cast

import typer

from ..errors import BadInput
from ..files import preloading
from ..files.files import OnFailure, Validate
from .output import Session, Set, configure


def run(
    command: Annotated[list[str], typer.Argument(help="The program and its arguments.")],
    root: Annotated[
        list[str] | None,
        typer.Option(metavar="DIR", help="Cache files below it; `roots` unless given."),
    ] = None,
    copies: Annotated[int, typer.Option(help="Copies of each file.")] = 1,
    on_failure: Annotated[
        str, typer.Option(help="When an owner fails: recache, redirect or abort.")
    ] = "recache",
    validate: Annotated[
        str, typer.Option(help="Look at files at each `open`, or never.")
    ] = "never",
    print_env: Annotated[
        bool, typer.Option("--print-env", help="Print what would be set, and run nothing.")
    ] = False,
    session: Session = None,
    settings: Set = None,
) -> None:
    """Run a program that reads files below the roots from the copies on the nodes.

    Nothing in the program changes. What no agent can give it reads from the storage itself.
    """
    config = configure(settings, session=session)
    variables = preloading.environment(
        config,
        root or (),
        copies,
        cast(OnFailure, on_failure),
        cast(Validate, validate),
        os.environ,
    )
    if print_env:
        for name, value in variables.items():
            print(f"export {name}={shlex.quote(value)}")
        return
    program = shutil.which(command[0])
    if program is None:
        raise BadInput(f"the command {command[0]!r} was not found; is it in the PATH?")
    try:
        os.execve(program, command, {**os.environ, **variables})  # noqa: S606
    except OSError as error:
        raise BadInput(f"{program} cannot be run: {error.strerror}") from None
