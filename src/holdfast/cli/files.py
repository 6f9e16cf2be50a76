"""`holdfast warm` and `holdfast refresh`."""

from __future__ import annotations

import os
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

from ..cluster import session as sessions
from ..cluster.peers import Peers
from ..files import Files, refreshing
from ..files.warming import Warmed
from ..job import Job
from ..units import format_size
from .output import AsJson, Session, Set, configure, print_json


def warm(
    directory: Annotated[str, typer.Argument(help="A directory of the storage.")],
    copies: Annotated[int, typer.Option(help="Copies of each file.")] = 1,
    parallel: Annotated[int, typer.Option(min=1, max=256, help="Files read at a time.")] = 16,
    session: Session = None,
    settings: Set = None,
    as_json: AsJson = False,
) -> None:
    """Let the nodes read all files below a directory ahead of the first epoch.

    What they hold already is not read again: a warming that was interrupted goes on where it was.
    """
    config = configure(settings, session=session)
    with Job(sessions.directory(config), config) as job:
        total = _warm(job.files(directory, copies=copies), parallel, quiet=as_json)
    if as_json:
        print_json(total)
        return
    print(f"{total.cached} files are cached, {format_size(total.bytes)}.")
    if total.left_out:
        print(
            f"{total.left_out} were left out: too large, too young (file_settled), not regular or "
            "unreadable. They are read from the storage."
        )


def refresh(
    paths: Annotated[list[str], typer.Argument(help="Files, or directories with all below.")],
    session: Session = None,
    settings: Set = None,
    as_json: AsJson = False,
) -> None:
    """Let all nodes look again at files that changed on the storage."""
    config = configure(settings, session=session)
    peers = Peers(sessions.directory(config), config)
    # A path says enough: agents know files by their whole names, whatever root was given.
    done = refreshing.refresh(peers, [os.fsencode(os.path.abspath(path)) for path in paths])
    if as_json:
        print_json(done)
        return
    print(f"{len(done.nodes)} nodes look again at {', '.join(paths)}.")
    if done.missed:
        print(
            f"Not reached: {', '.join(done.missed)}; they look again before they serve when back."
        )


def _warm(files: Files, parallel: int, quiet: bool) -> Warmed:
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        return files.warm(parallel=parallel)
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
    with Progress(*columns, TimeRemainingColumn(), console=console, transient=True) as progress:
        task = progress.add_task("", total=None)

        def show(so_far: Warmed) -> None:
            progress.update(
                task,
                total=so_far.total,
                completed=so_far.files,
                description=format_size(so_far.bytes),
            )

        return files.warm(parallel=parallel, progress=show)
