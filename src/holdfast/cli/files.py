"""`holdfast warm` and `holdfast refresh`."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)

from ..client.connection import Connection
from ..config import Config
from ..errors import Unavailable
from ..files import Files, broadcast
from ..files import refresh as refreshes
from ..files.mount import control
from ..files.warm import Warmed
from ..job import Job
from ..session import session as sessions
from ..units import format_size, plural
from .output import AsJson, Session, Set, configure, print_json, refuse_with


def warm(
    directory: Annotated[str, typer.Argument(help="A directory on the shared file system.")],
    copies: Annotated[int | None, typer.Option(help="Copies of each file (default: 1).")] = None,
    parallel: Annotated[
        int | None, typer.Option(min=1, max=256, help="Files read at a time (default: 16).")
    ] = None,
    broadcast: Annotated[
        bool, typer.Option("--broadcast", help="Bring a copy of every file to every node.")
    ] = False,
    session: Session = None,
    settings: Set = None,
    as_json: AsJson = False,
) -> None:
    """Let the nodes read all files below a directory ahead of the first epoch.

    What they hold already is not read again: a warming that was interrupted goes on where it was.
    """
    config = configure(settings, session=session)
    if broadcast:
        refuse_with("--broadcast", copies=copies, parallel=parallel)
        _broadcast(config, directory, as_json=as_json)
        return
    with Job(sessions.directory(config), config) as job:
        files = job.files(directory, copies=1 if copies is None else copies)
        total = _warm(files, parallel or 16, quiet=as_json)
        if files.stats().failures and not total.cached:
            raise Unavailable("no agent answered; `holdfast status` shows them")
    if as_json:
        print_json(total)
        return
    cached = plural(total.cached, "file is", "files are")
    print(f"{cached} cached ({format_size(total.bytes)}).")
    if total.left_out:
        print(
            f"{total.left_out} were left out: too large, too young (file_settled), not regular, "
            "unreadable, there was no room, their agents failed, or a program of the job changed "
            "them (`holdfast refresh` lets those in again). They are read from the storage."
        )


def _broadcast(config: Config, directory: str, as_json: bool) -> None:
    connection = Connection(sessions.directory(config), config)
    with _bar(quiet=as_json) as show:
        done = broadcast.broadcast(
            connection,
            config,
            directory,
            lambda so_far: show(so_far.found, so_far.fetched + so_far.left_out, so_far.bytes),
        )
    if as_json:
        print_json(done)
        return
    size = format_size(done.bytes)
    all_of_it = "what they could keep" if done.left_out else "all of it"
    print(f"{len(done.nodes)} nodes have {all_of_it}: {done.fetched} copies, {size}.")
    if done.left_out:
        print(
            f"{done.left_out} were left out: too large (tree_largest), too young (file_settled), "
            "not regular, unreadable, there was no room, or a program of the job changed them "
            "(`holdfast refresh` lets those in again). They are fetched or read when asked for."
        )
    if done.stalled:
        print(
            f"No progress for a minute: {', '.join(done.stalled)}; does their storage answer? They "
            "go on by themselves."
        )
    if done.missed:
        print(f"Not reached: {', '.join(done.missed)}; their programs fetch what they need.")


def refresh(
    paths: Annotated[list[str], typer.Argument(help="Files or directories that have changed.")],
    session: Session = None,
    settings: Set = None,
    as_json: AsJson = False,
) -> None:
    """Let all nodes look again at files that changed on the storage."""
    config = configure(settings, session=session)
    directory = sessions.directory(config)
    connection = Connection(directory, config)
    # A path says enough: agents know files by their whole names, whatever root was given.
    paths = [control.original(directory, os.path.abspath(path)) for path in paths]
    done = refreshes.refresh(connection, list(map(os.fsencode, paths)))
    if as_json:
        print_json(done)
    else:
        print(f"{len(done.nodes)} nodes look again at {', '.join(paths)}.")
    stuck = {mount.partition(":")[0] for mount in done.mounts}
    gone = [node for node in done.missed if node not in stuck]
    troubles = []
    if gone:
        troubles.append(
            f"these nodes did not answer, and while they live may serve what was until another "
            f"node reaches them: {', '.join(gone)}"
        )
    if done.mounts:
        troubles.append(
            f"these mounts did not answer and may show what was: {', '.join(done.mounts)}"
        )
    if troubles:
        raise Unavailable(f"{'; '.join(troubles)}; refresh once more")


def _warm(files: Files, parallel: int, quiet: bool) -> Warmed:
    with _bar(quiet) as show:
        return files.warm(
            parallel=parallel,
            progress=lambda so_far: show(so_far.total, so_far.files, so_far.bytes),
        )


@contextlib.contextmanager
def _bar(quiet: bool) -> Iterator[Callable[[int, int, int], None]]:
    """Give what shows the total, how many are done, and their bytes; only on a terminal."""
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield lambda total, done, size: None
        return
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
    with Progress(*columns, TimeRemainingColumn(), console=console, transient=True) as progress:
        task = progress.add_task("", total=None)

        def show(total: int, done: int, size: int) -> None:
            progress.update(task, total=total, completed=done, description=format_size(size))

        yield show
