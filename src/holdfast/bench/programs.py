"""The programs of native/bench, each pinned to a core.

Both ends of a ratio are pinned in the same way: where a process runs moves a round trip four-fold.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

import msgspec

from ..errors import HoldfastError

_DIRECTORY = Path(__file__).with_name("bin")


def program(name: str) -> str:
    """Return the path of a program of native/bench."""
    return str(_DIRECTORY / name)


def two_cores() -> tuple[int, int]:
    """Return a core for servers and one for clients, the same one if there is no other."""
    usable = sorted(os.sched_getaffinity(0))
    return usable[-1], usable[0]


@contextmanager
def on_core(core: int) -> Iterator[None]:
    """Run this thread, and what it starts meanwhile, on `core` only."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def pin(pid: int, core: int) -> None:
    """Pin all threads of a running process to `core`."""
    for thread in os.listdir(f"/proc/{pid}/task"):
        os.sched_setaffinity(int(thread), {core})


@contextmanager
def server(core: int | None, name: str, address: str, size: int) -> Iterator[str]:
    """Run a server that answers with `size` bytes; gives its address."""
    with nullcontext() if core is None else on_core(core):
        process = subprocess.Popen(
            [program(name), address, str(size)], stdout=subprocess.PIPE, text=True
        )
    try:
        assert process.stdout is not None
        bound = process.stdout.readline().strip()
        if not bound:
            raise HoldfastError(f"the program {name} ended at once; is {address} in use?")
        yield bound
    finally:
        process.kill()
        process.communicate()


class Pace(msgspec.Struct, frozen=True):
    """How fast clients were answered."""

    per_second: float  # requests of all clients
    seconds: float  # median of one request
    each: list[float]  # requests per second of each client


class Run(msgspec.Struct, frozen=True):
    """A client to run: where, with what."""

    core: int
    name: str
    arguments: Sequence[str | int]
    stdin: bytes = b""
    environment: Mapping[str, str] = {}


def client(core: int, name: str, *arguments: str | int, stdin: bytes = b"") -> Pace:
    """Run a client to its end."""
    return clients([Run(core, name, arguments, stdin)])[0]


def clients(runs: Sequence[Run]) -> list[Pace]:
    """Run clients to their ends, all at the same time."""
    started: list[subprocess.Popen[bytes]] = []
    try:
        for run in runs:
            with on_core(run.core):
                started.append(
                    subprocess.Popen(
                        [program(run.name), *map(str, run.arguments)],
                        stdin=subprocess.PIPE,
                        stdout=subprocess.PIPE,
                        stderr=subprocess.PIPE,
                        env={**os.environ, **run.environment},
                    )
                )
        for run, process in zip(runs, started, strict=True):
            assert process.stdin is not None
            process.stdin.write(run.stdin)
            process.stdin.close()
            process.stdin = None
        return [_pace(run, process) for run, process in zip(runs, started, strict=True)]
    finally:
        for process in started:
            process.kill()
            process.communicate()


def _pace(run: Run, process: subprocess.Popen[bytes]) -> Pace:
    output, errors = process.communicate(timeout=60)
    if process.returncode != 0:
        raise HoldfastError(f"the program {run.name} failed: {errors.decode().strip()}")
    return msgspec.json.decode(output, type=Pace)


class _Lookup(msgspec.Struct, frozen=True):
    nanoseconds: float


def lookup_seconds(nodes: int, virtual_nodes: int) -> float:
    """Return the seconds of one lookup of an owner on a ring of that size, in C++."""
    with on_core(two_cores()[1]):
        done = subprocess.run(
            [program("ring_lookup"), str(nodes), str(virtual_nodes)],
            capture_output=True,
            timeout=60,
            check=True,
        )
    return msgspec.json.decode(done.stdout, type=_Lookup).nanoseconds * 1e-9
