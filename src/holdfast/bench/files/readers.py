"""Programs that read files through the shim, without it, and by raw requests instead."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ...files import FilePolicy, shim
from ...job import local_cluster
from ...placement.ring import Ring
from .. import programs
from ..programs import Pace, Run

if TYPE_CHECKING:
    from typing_extensions import Self

    from ...files.policy import OnFailure

#: How long a contestant has the cores in each round.
TURN_MS = 400
MEMORY, DISK = "memory", "disk"
_STEPS = 64  # sizes between half and one and a half times, as native/bench/raw_client.c has them


def spread(middle: int) -> list[int]:
    """Return sizes from half to one and a half times `middle`."""
    return [middle // 2 + middle * step // (_STEPS - 1) for step in range(_STEPS)]


@contextmanager
def _directory(above: str | None = None) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=above) as directory:
        yield Path(directory)


@contextmanager
def _tmpfs() -> Iterator[Path]:
    """Mount one, since what lies below /dev cannot be a root; its pages are as those of agents."""
    with _directory() as directory:
        mount = ["mount", "-t", "tmpfs", "-o", "huge=within_size", "holdfast-bench", str(directory)]
        subprocess.run(mount, check=True)
        try:
            yield directory
        finally:
            subprocess.run(["umount", directory], check=True)


class ReaderCluster:
    """Agents, and files whose owners are known; each node has one of two cores.

    Agents of `loose` nodes may use both: what they do for a reader they do beside it.
    Originals lie below the directories of both tiers, so that a copy can be compared with an
    original on the same file system.
    """

    def __init__(self, nodes: int, loose: Collection[int] = ()) -> None:
        server_core, client_core = programs.two_cores()
        self.cores = [client_core if node % 2 == 0 else server_core for node in range(nodes)]
        with ExitStack() as stack:
            self.cluster = stack.enter_context(
                local_cluster(nodes=nodes, memory="2 GiB", disk="2 GiB", file_settled="0 s")
            )
            config = self.cluster.config
            self.roots = {
                MEMORY: stack.enter_context(_tmpfs()),
                DISK: stack.enter_context(_directory(config.disk_dir or None)),
            }
            for number, node in enumerate(self.cluster.nodes):
                if number not in loose:
                    programs.pin(node.pid, self.cores[number])
            with self.cluster.connect() as job:
                self._ring = Ring(job.nodes, config.virtual_nodes)
            self._numbers = count()
            self._held = stack.pop_all()

    def file(self, tier: str, owner: int, size: int) -> Path:
        """Write a file that a node owns."""
        wanted = [self.cluster.nodes[owner].name]
        while True:
            path = self.roots[tier] / f"{next(self._numbers)}"
            if self._ring.owners(b"@file" + os.fsencode(path), 1) == wanted:
                break
        path.write_bytes(os.urandom(size))
        return path

    def warm(self, tier: str, node: int = 0) -> None:
        """Let the agents read all files there."""
        self.cluster.config = msgspec.structs.replace(self.cluster.config, file_tier=tier)
        with self.cluster.connect(node) as job:
            job.files(self.roots[tier]).warm()

    def variables(self, tier: str, node: int, on_failure: OnFailure = "recache") -> dict[str, str]:
        """Return what `holdfast run` sets for programs of a node."""
        directory = self.cluster.directory
        config = msgspec.structs.replace(
            self.cluster.config,
            session=directory.name,
            run_dir=str(directory.parent),
            node=self.cluster.nodes[node].name,
            file_tier=tier,
        )
        roots = [str(self.roots[tier])]
        return shim.environment(config, roots, FilePolicy(on_failure=on_failure), os.environ)

    def reader(self, node: int, paths: Sequence[Path], readers: int = 1) -> Run:
        """Return a program of a node that reads files, without the shim."""
        names = b"".join(os.fsencode(path) + b"\n" for path in paths)
        return Run(self.cores[node], "file_loop", (readers, TURN_MS), names)

    def shimmed(self, tier: str, node: int, paths: Sequence[Path], readers: int = 1) -> Run:
        """Return the same under the shim."""
        plain = self.reader(node, paths, readers)
        return msgspec.structs.replace(plain, environment=self.variables(tier, node))

    def server(self, node: int, most: int) -> str:
        """Run a server of raw requests on a node's core; gives its address."""
        return self._held.enter_context(
            programs.server(self.cores[node], "blocking_server", "tcp:127.0.0.1:0", most)
        )

    def raw(self, node: int, servers: Sequence[str], sizes: str, readers: int = 1) -> Run:
        """Return a program of a node that asks servers for bytes."""
        arguments = (",".join(servers), sizes, readers, TURN_MS)
        return Run(self.cores[node], "raw_client", arguments)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()


def typical(run: Run) -> float:
    """Return how many requests a second fit the median one."""
    (pace,) = programs.clients([run])
    return 1 / pace.seconds


def together(runs: Sequence[Run]) -> Pace:
    """Run all of them at once."""
    paces = programs.clients(runs)
    each = [rate for pace in paces for rate in pace.each]
    return Pace(sum(each), max(pace.seconds for pace in paces), each)
