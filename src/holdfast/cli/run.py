"""`holdfast run`."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Callable
from typing import Annotated, cast

import typer

from ..errors import BadInput
from ..files import environment, preloading
from ..files.files import OnFailure, Validate
from .output import Session, Set, configure, refuse_with


def run(
    command: Annotated[list[str], typer.Argument(help="The program and its arguments.")],
    root: Annotated[
        list[str] | None,
        typer.Option(metavar="DIR", help="Cache files below it; `roots` unless given."),
    ] = None,
    copies: Annotated[int | None, typer.Option(help="Copies of each file; 1 unless given.")] = None,
    on_failure: Annotated[
        str | None,
        typer.Option(help="When an owner fails: redirect, abort or, unless given, recache."),
    ] = None,
    validate: Annotated[
        str | None, typer.Option(help="Look at files at each `open` or, unless given, never.")
    ] = None,
    mount: Annotated[
        bool, typer.Option("--mount", help="Through a mount, made if there is none, instead.")
    ] = False,
    print_env: Annotated[
        bool,
        typer.Option(
            "--print-env", help="Print what would be set, and run nothing; --mount mounts."
        ),
    ] = False,
    session: Session = None,
    settings: Set = None,
) -> None:
    """Run a program that reads files below the roots from the copies on the nodes.

    Nothing in the program changes. What no agent can give it reads from the storage itself. With
    --mount its PATH, PYTHONPATH, LD_LIBRARY_PATH and Python's prefix name the mount.
    """
    config = configure(settings, session=session)
    if mount:
        refuse_with("--mount", copies=copies, on_failure=on_failure, validate=validate)
        through = environment.views(environment.mounted(config, root or (), command[0]))
        variables = environment.variables(os.environ, through)
        _run(variables, print_env, lambda: environment.command(command, os.environ, through))
        return
    variables = preloading.environment(
        config,
        root or (),
        1 if copies is None else copies,
        cast(OnFailure, "recache" if on_failure is None else on_failure),
        cast(Validate, "never" if validate is None else validate),
        os.environ,
    )
    _run(variables, print_env, lambda: _command(command))


def _command(words: list[str]) -> list[str]:
    program = shutil.which(words[0])
    if program is None:
        raise BadInput(f"the command {words[0]!r} was not found; is it in the PATH?")
    return [program, *words[1:]]


def _run(variables: dict[str, str], print_env: bool, command: Callable[[], list[str]]) -> None:
    """Become the program, or print what it would find set."""
    if print_env:
        for name, value in variables.items():
            print(f"export {name}={shlex.quote(value)}")
        return
    words = command()
    try:
        os.execve(words[0], words, {**os.environ, **variables})  # noqa: S606
    except OSError as error:
        raise BadInput(f"{words[0]} cannot be run: {error.strerror}") from None
