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
        int | None, typer.Option(min=1, max=256, help="Files to read concurrently (default: 16).")
    ] = None,
    broadcast: Annotated[
        bool, typer.Option("--broadcast", help="Copy every file to every node.")
    ] = False,
    session: Session = None,
    settings: Set = None,
    as_json: AsJson = False,
) -> None:
    """Make the nodes read all files below a directory before the first epoch.

    Files that they already hold are not read again, so an interrupted run resumes where it stopped.
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
            raise Unavailable("no agent answered; check them with `holdfast status`")
    if as_json:
        print_json(total)
        return
    cached = plural(total.cached, "file is", "files are")
    print(f"{cached} cached ({format_size(total.bytes)}).")
    if total.left_out:
        print(
            f"Skipped {plural(total.left_out, 'file', 'files')}: too large, changed too recently "
            "(file_settled), not regular, not readable, without room, owned by agents that "
            "failed, or changed by a program of the job (`holdfast refresh` admits those "
            "again). What was skipped is read from the shared file system."
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
    all_of_it = "all files that could be kept" if done.left_out else "all files"
    have = plural(len(done.nodes), "node has", "nodes have")
    print(f"{have} {all_of_it}: {done.fetched} copies, {size}.")
    if done.left_out:
        print(
            f"Skipped {plural(done.left_out, 'file', 'files')}: too large (tree_largest), changed "
            "too recently (file_settled), not regular, not readable, without room, or changed "
            "by a program of the job (`holdfast refresh` admits those again). What was skipped "
            "is fetched or read on demand."
        )
    if done.stalled:
        print(
            f"No progress on {', '.join(done.stalled)} for a minute; the shared file system may "
            "be hanging there. The copy continues in the background."
        )
    if done.missed:
        print(f"Could not reach {', '.join(done.missed)}; programs there fetch files on demand.")


def refresh(
    paths: Annotated[list[str], typer.Argument(help="Files or directories that have changed.")],
    session: Session = None,
    settings: Set = None,
    as_json: AsJson = False,
) -> None:
    """Make all nodes check files that changed on the shared file system."""
    config = configure(settings, session=session)
    directory = sessions.directory(config)
    connection = Connection(directory, config)
    # A path says enough: agents know files by their whole names, whatever root was given.
    paths = [control.original(directory, os.path.abspath(path)) for path in paths]
    done = refreshes.refresh(connection, list(map(os.fsencode, paths)))
    if as_json:
        print_json(done)
    else:
        print(f"Refreshed {', '.join(paths)} on {plural(len(done.nodes), 'node', 'nodes')}.")
    stuck = {mount.partition(":")[0] for mount in done.mounts}
    gone = [node for node in done.missed if node not in stuck]
    troubles = []
    if gone:
        troubles.append(
            "these nodes did not answer and, if alive, may serve old contents until "
            f"another node reaches them: {', '.join(gone)}"
        )
    if done.mounts:
        troubles.append(
            f"these mounts did not answer and may show old contents: {', '.join(done.mounts)}"
        )
    if troubles:
        raise Unavailable(f"{'; '.join(troubles)}; refresh again")


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
