"""What the benchmarks of the mount work with: sizes, agents with mounts, and cold caches."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter

import msgspec

from ...errors import HoldfastError
from ...files.mount import control, table
from ...job import LocalCluster, local_cluster
from ...testing.countfs import CountingFS
from .. import programs

_TIMEOUT = 900.0
_DROP_CACHES = Path("/proc/sys/vm/drop_caches")


class Sizes(msgspec.Struct, frozen=True, kw_only=True):
    """How much is done; the smaller ones show that it works, not how fast."""

    rounds: int = 9
    cold_rounds: int = 5
    turn_ms: int = 400
    files: int = 5000
    cold_files: int = 1000  # in each round
    large: tuple[int, ...] = (8_000_000, 256_000_000)
    payloads: tuple[int, ...] = (64, 1024, 8192, 65_536, 131_072, 262_144, 1_048_576)
    trips: int = 25
    agents: int = 16
    processes: int = 12  # on each agent's node, in the storm
    operation: str = "2 ms"  # of the shared file system, one at a time, in the storm
    imported: tuple[str, ...] = ("numpy", "pandas")
    heavy: str = "torch"
    drops_caches: bool = True


SMALL = Sizes(
    rounds=1,
    cold_rounds=1,
    turn_ms=20,
    files=100,
    cold_files=40,
    large=(8_000_000,),
    payloads=(64, 65_536),
    trips=2,
    agents=3,
    processes=2,
    operation="0.1 ms",
    imported=("numpy",),
    heavy="numpy",
    drops_caches=False,
)


class MountedCluster:
    """Agents, each with a mount of the same roots."""

    def __init__(self, cluster: LocalCluster, points: Sequence[Path]) -> None:
        self.cluster = cluster
        self.points = points

    def path(self, original: str | Path, node: int = 0) -> str:
        """Return where the mount of a node shows a file."""
        return f"{self.points[node]}{original}"

    def pid(self, node: int = 0) -> int:
        """Return the process behind the mount of a node."""
        mounted = table.at(self.points[node])
        pid = None if mounted is None else table.server(mounted)
        if pid is None:
            raise HoldfastError(f"the mount at {self.points[node]} has ended")
        return pid

    def pin(self, core: int) -> None:
        """Let agents and mounts run on one core."""
        for index, node in enumerate(self.cluster.nodes):
            programs.pin(node.pid, core)
            programs.pin(self.pid(index), core)


@contextmanager
def mounted(
    root: str | Path, agents: int = 1, storage: CountingFS | None = None, **settings: str | int
) -> Iterator[MountedCluster]:
    """Start agents, and for each a mount of `root`; its programs see `root` as everybody does."""
    chosen: dict[str, str | int] = {"memory": "2 GiB", "file_settled": "0 s", **settings}
    with (
        tempfile.TemporaryDirectory(prefix="hf") as directory,
        local_cluster(agents, storage=storage, **chosen) as cluster,
    ):
        points = [Path(os.path.realpath(directory), str(number)) for number in range(agents)]
        try:
            for node, point in zip(cluster.nodes, points, strict=True):
                point.mkdir()
                config = msgspec.structs.replace(
                    cluster.config,
                    session=cluster.directory.name,
                    run_dir=str(cluster.directory.parent),
                    node=node.name,
                )
                control.start(config, str(point), [str(root)])
            yield MountedCluster(cluster, points)
        finally:
            control.stop_all(cluster.directory)


def lacking(*modules: str) -> str:
    """Tell which of the modules cannot be imported here; empty if all can."""
    missing = [name for name in modules if find_spec(name) is None]
    return f"{' and '.join(missing)} cannot be imported here" if missing else ""


def importing(python: str, *modules: str) -> list[str]:
    """Return the command that imports modules; nothing of the user's environment has a say."""
    return [python, "-I", "-c", f"import {', '.join(modules)}"]


def interpreter(prefix: str) -> str:
    """Return this interpreter as it is found below another prefix that shows `sys.prefix`."""
    return os.path.join(prefix, os.path.relpath(sys.executable, sys.prefix))


def timed(command: Sequence[str]) -> float:
    """Run a command that must succeed; return its seconds."""
    start = perf_counter()
    done = subprocess.run(
        command, capture_output=True, stdin=subprocess.DEVNULL, timeout=_TIMEOUT, check=False
    )
    seconds = perf_counter() - start
    if done.returncode != 0:
        raise HoldfastError(f"{' '.join(command)} failed: {done.stderr.decode().strip()[-300:]}")
    return seconds


def drop_caches(sizes: Sizes) -> None:
    """Let the kernel forget all files that it can read again."""
    if sizes.drops_caches:
        os.sync()  # what is not on disk yet cannot be forgotten
        _DROP_CACHES.write_text("3", encoding="ascii")
