"""A storm of imports on a storage that counts and serves one operation at a time."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from time import perf_counter

import msgspec

from ...errors import HoldfastError
from ...testing.countfs import CountingFS, Counts
from ..core.setup import ReportPart
from ..figures import at_most, shown
from .setup import Sizes, importing, interpreter, lacking
from .setup import mounted as mounts

_TIMEOUT = 1800.0


class Storm(msgspec.Struct, frozen=True):
    """What a storm took, and what the shared file system saw of it."""

    seconds: float
    asked: Counts
    files: int  # opened at least once
    opens: int  # of the file that was opened most often
    listings: int  # of the directory that was listed most often


def run(sizes: Sizes) -> ReportPart:
    """Let many processes on many nodes import, and as many on one."""
    if reason := lacking(*sizes.imported):
        return ReportPart([], notes=[f"The storm was not measured: {reason}."])
    many = _storm(sizes, sizes.agents, sizes.processes)
    one = _storm(sizes, 1, sizes.agents * sizes.processes)
    who = f"{sizes.agents} agents, {sizes.processes} processes each"
    what = f"{who}, import {', '.join(sizes.imported)}, {sizes.operation} per operation"
    alone = f"1 agent, {sizes.agents * sizes.processes} processes, {one.seconds:.1f} s"
    return ReportPart(
        [
            at_most(f"{what}: opens of the file opened most", many.opens, 1, "opens", ""),
            at_most("the same: listings of the directory listed most", many.listings, 1,
                    "listings", ""),
            at_most("the same: time", many.seconds / one.seconds, 1.5, "x its time", alone),
            shown("the same: files that the shared file system opened", many.files, "files"),
            shown("the same: operations of the shared file system",
                  operations(many.asked), "operations",
                  f"1 agent: {operations(one.asked)}"),
        ]
    )  # fmt: skip


def _storm(sizes: Sizes, agents: int, processes: int) -> Storm:
    with tempfile.TemporaryDirectory(prefix="hf") as directory:
        at = Path(directory, "shared").resolve()
        with (
            CountingFS(sys.prefix, at, agents, operation_delay=sizes.operation) as storage,
            mounts(at, agents, storage) as mounted,
        ):
            commands = [
                importing(interpreter(mounted.path(at, node)), *sizes.imported)
                for node in range(agents)
            ]
            return watched(storage, [command for command in commands for _ in range(processes)])


def watched(storage: CountingFS, commands: Sequence[Sequence[str]]) -> Storm:
    """Run commands at once, all of which must succeed, and see what the storage had to do."""
    storage.reset()
    start = perf_counter()
    together(commands)
    seconds = perf_counter() - start
    counts = storage.counts().values()
    return Storm(
        seconds,
        storage.total(),
        sum(one.opens > 0 for one in counts),
        max((one.opens for one in counts), default=0),
        max((one.listings for one in counts), default=0),
    )


def together(commands: Sequence[Sequence[str]]) -> None:
    """Run commands at once; all must succeed."""
    with ExitStack() as stack:
        running = []
        for command in commands:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
            )
            stack.enter_context(process)
            stack.callback(process.kill)
            running.append(process)
        for process in running:
            _, complaint = process.communicate(timeout=_TIMEOUT)
            if process.returncode != 0:
                said = complaint.decode(errors="replace").strip()[-300:]
                raise HoldfastError(f"a process of the storm failed: {said}")


def operations(asked: Counts) -> int:
    """Return how many requests the shared file system served."""
    return asked.opens + asked.reads + asked.lookups + asked.getattrs + asked.listings
