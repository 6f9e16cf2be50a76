"""Objects in two copies on four agents, one of which is killed in the middle."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Iterator, Sequence

import msgspec
from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from ...errors import HoldfastError
from ...job import Job, LocalCluster, local_cluster
from ...units import format_size, format_time

NODES = 4
COPIES = 2
VICTIM = 2
OBJECTS = 600
SIZES = (100, 4_000, 100_000, 1_000_000, 4_000_000)


class Phase(msgspec.Struct, kw_only=True):
    """What one phase of the demo saw."""

    name: str
    operations: int = 0
    written: int = 0
    read: int = 0
    seconds: float = 0.0
    slowest: float = 0.0
    wrong: int = 0
    failed: int = 0


def content(number: int) -> bytes:
    """Return the bytes of object `number`, the same at every call."""
    return random.Random(number).randbytes(SIZES[number % len(SIZES)])


class Show:
    """The live picture: a bar and a line per node."""

    def __init__(self, cluster: LocalCluster, console: Console) -> None:
        self._cluster = cluster
        self.progress = Progress(
            TextColumn("{task.description:<34}"), BarColumn(), MofNCompleteColumn(), console=console
        )

    def __rich__(self) -> Group:
        nodes = Table.grid(padding=(0, 2))
        for node in self._cluster.nodes:
            state = "[green]up[/]" if node.alive else "[bold red]killed (SIGKILL)[/]"
            nodes.add_row(node.name, f"pid {node.pid}", state)
        return Group(nodes, self.progress)


def run() -> None:
    """Run the demo; raises if a byte was wrong or an object lost."""
    console = Console()
    phases: list[Phase] = []
    start = time.monotonic()
    with local_cluster(nodes=NODES) as cluster:
        started = time.monotonic() - start
        job = cluster.connect()
        show = Show(cluster, console)
        with Live(show, console=console, refresh_per_second=10, transient=True):
            for phase in _story(cluster, job, show):
                phases.append(phase)
    console.print(_summary(phases))
    wrong = sum(phase.wrong for phase in phases)
    failed = sum(phase.failed for phase in phases)
    if wrong or failed:
        raise HoldfastError(f"{wrong} objects came back wrong, and {failed} operations failed")
    size = sum(phase.read for phase in phases)
    console.print(
        f"{NODES} agents were up after {format_time(started)}. One was killed while "
        f"objects were read; {format_size(size)} were read, and every byte was compared "
        "with what was written: all are right. The agents have ended and left nothing "
        "behind."
    )


def _story(cluster: LocalCluster, job: Job, show: Show) -> Iterator[Phase]:
    half = OBJECTS // 2
    numbers = list(range(half))
    random.Random(0).shuffle(numbers)
    yield _put(f"put, {COPIES} copies each", range(half), job, show)
    yield _get("get", numbers, job, show)
    fatal = numbers[half // 3]
    yield _get(
        f"get while node-{VICTIM} dies",
        numbers,
        job,
        show,
        before=lambda number: cluster.kill(VICTIM) if number == fatal else None,
    )
    yield _put(f"put on the {NODES - 1} left", range(half, OBJECTS), job, show)
    yield _get("get everything", range(OBJECTS), job, show)


def _put(name: str, numbers: Sequence[int], job: Job, show: Show) -> Phase:
    phase = Phase(name=name)
    for number in show.progress.track(numbers, description=name):
        data = content(number)
        with _timed(phase):
            job.objects.put(f"demo/{number}", data, copies=COPIES)
            phase.written += len(data)
    return phase


def _get(
    name: str,
    numbers: Sequence[int],
    job: Job,
    show: Show,
    before: Callable[[int], None] = lambda _number: None,
) -> Phase:
    phase = Phase(name=name)
    for number in show.progress.track(numbers, description=name):
        before(number)
        data = b""
        with _timed(phase):
            data = job.objects.get(f"demo/{number}")
            phase.read += len(data)
        phase.wrong += data != content(number)
    return phase


@contextlib.contextmanager
def _timed(phase: Phase) -> Iterator[None]:
    start = time.perf_counter()
    try:
        yield
    except HoldfastError:
        phase.failed += 1
    took = time.perf_counter() - start
    phase.operations += 1
    phase.seconds += took
    phase.slowest = max(phase.slowest, took)


def _summary(phases: list[Phase]) -> Table:
    table = Table(title=f"{NODES} agents, {COPIES} copies, one agent killed")
    table.add_column("phase")
    for column in ("operations", "bytes", "time", "slowest", "wrong", "failed"):
        table.add_column(column, justify="right")
    for phase in phases:
        table.add_row(
            phase.name,
            str(phase.operations),
            format_size(phase.written + phase.read),
            format_time(phase.seconds),
            format_time(phase.slowest),
            str(phase.wrong),
            str(phase.failed),
        )
    return table
