"""`holdfast run`."""

from __future__ import annotations

import errno
import os
import shlex
import shutil
from collections.abc import Callable
from typing import Annotated, cast

import typer

from ..errors import BadInput
from ..files import shim
from ..files.mount import environment
from ..files.policy import FilePolicy, OnFailure, Validate
from .output import Session, Set, configure, refuse_with

#: As shells and other launchers tell that there is no such program, or that it cannot be run.
_NOT_FOUND, _NOT_EXECUTABLE = 127, 126


def run(
    command: Annotated[list[str], typer.Argument(help="The program and its arguments.")],
    root: Annotated[
        list[str] | None,
        typer.Option(metavar="DIR", help="Cache files below DIR (default: the setting `roots`)."),
    ] = None,
    copies: Annotated[int | None, typer.Option(help="Copies of each file (default: 1).")] = None,
    on_failure: Annotated[
        str | None,
        typer.Option(help="When a file's owner fails: recache (default), redirect or abort."),
    ] = None,
    validate: Annotated[
        str | None,
        typer.Option(help="When to check originals for changes: never (default) or open."),
    ] = None,
    mount: Annotated[
        bool,
        typer.Option("--mount", help="Use a mount instead of the shim; mount if there is none."),
    ] = False,
    print_env: Annotated[
        bool,
        typer.Option(
            "--print-env", help="Print the environment and run nothing; --mount still mounts."
        ),
    ] = False,
    session: Session = None,
    settings: Set = None,
) -> None:
    """Run a program that reads files below the roots from the copies on the nodes.

    Nothing in the program changes. It reads what no agent can serve from the shared file system.
    With --mount its PATH, PYTHONPATH, LD_LIBRARY_PATH and Python's prefix point to the mount.
    """
    config = configure(settings, session=session)
    if mount:
        refuse_with("--mount", copies=copies, on_failure=on_failure, validate=validate)
        through = environment.views(environment.mounted(config, root or (), command[0]))
        variables = environment.variables(os.environ, through)
        _run(
            variables,
            print_env,
            lambda: environment.command(_find(command[0]), command[1:], through),
        )
        return
    variables = shim.environment(
        config,
        root or (),
        FilePolicy(
            1 if copies is None else copies,
            cast(OnFailure, "recache" if on_failure is None else on_failure),
            cast(Validate, "never" if validate is None else validate),
        ),
        os.environ,
    )
    _run(variables, print_env, lambda: [_find(command[0]), *command[1:]])


def _find(name: str) -> str:
    program = shutil.which(name)
    if program is not None:
        return program
    there = shutil.which(name, os.F_OK) or (name if os.path.isdir(name) and "/" in name else None)
    if there is not None:
        raise _not_run(f"{there} cannot be run: it is not an executable file", _NOT_EXECUTABLE)
    raise _not_run(f"the command {name!r} was not found; is it in the PATH?", _NOT_FOUND)


def _not_run(reason: str, code: int) -> BadInput:
    error = BadInput(reason)
    error.exit_code = code
    return error


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
        # Also a script is "not found" whose interpreter is not.
        code = _NOT_FOUND if error.errno == errno.ENOENT else _NOT_EXECUTABLE
        raise _not_run(f"{words[0]} cannot be run: {error.strerror}", code) from None
