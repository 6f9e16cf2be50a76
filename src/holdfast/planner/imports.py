"""How long a job takes to load its program: from the shared file system, or down a tree.

Without broadcast the shared file system serves the same small files to every process; with it one
node reads each file once and passes it down a tree (Copper). Docs: models/import.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from ..errors import BadInput


@dataclass(frozen=True, kw_only=True)
class Import:
    """What is loaded, and from where; sizes in bytes, rates per second, times in seconds.

    `start` is what the import takes on one node with everything cached, `operations` what one
    process asks the file system per file (stat, open, read and the misses of the search path).
    Files above the tree's size limit, `large` bytes in all, are read by every node itself.
    """

    files: int = 728
    size: float = 36.3e6
    large: float = 0.0
    processes: int = 12
    start: float = 2.0
    operations: float = 20.0
    latency: float = 4e-3
    storage_operations: float = 3e6
    storage_rate: float = 650e9
    degree: int = 2
    hop: float = 0.2e-3
    network: float = 10e9

    def __post_init__(self) -> None:
        for what, value in (
            ("number of files", self.files), ("number of processes", self.processes),
            ("number of operations per file", self.operations), ("degree", self.degree),
            ("storage rate", self.storage_rate), ("network rate", self.network),
            ("rate of operations", self.storage_operations),
        ):  # fmt: skip
            if not value > 0:
                raise BadInput(f"the {what} is {value:g}; it must be above 0")
        for what, value in (
            ("size", self.size), ("size of large files", self.large), ("start time", self.start),
            ("latency", self.latency), ("time of a hop", self.hop),
        ):  # fmt: skip
            if value < 0:
                raise BadInput(f"the {what} is {value:g}; it cannot be negative")

    @property
    def requests(self) -> float:
        """What one process asks for in all."""
        return self.files * self.operations

    def depth(self, nodes: int) -> int:
        """Hops from the head of the tree to its furthest node."""
        level, covered = 0, 1
        while covered < nodes:
            level += 1
            covered += self.degree**level if self.degree > 1 else 1
        return level


def direct(job: Import, nodes: int) -> float:
    """Seconds until all processes have loaded everything from the shared file system.

    One process at a time waits for each answer; all together wait for the operations of the
    shared file system and, once per node (the page cache keeps them), for the bytes.
    """
    _check(nodes)
    alone = job.requests * job.latency
    crowd = nodes * job.processes * job.requests / job.storage_operations
    transfer = nodes * (job.size + job.large) / job.storage_rate
    return job.start + max(alone, crowd) + transfer


def broadcast(job: Import, nodes: int) -> float:
    """Seconds with one reader and a tree: each file comes down hop by hop, one after another."""
    _check(nodes)
    hops = job.depth(nodes)
    head = job.requests * job.latency + job.size / job.storage_rate
    sends = job.degree * job.size / job.network  # a node sends each file to all its children
    large = nodes * job.large / job.storage_rate
    return job.start + head + job.files * hops * job.hop + (sends if hops else 0) + large


def cached(job: Import, nodes: int) -> float:
    """Seconds of a second import on the tree: only large files travel."""
    _check(nodes)
    return job.start + nodes * job.large / job.storage_rate


def pays_from(job: Import, most: int = 2**20) -> int | None:
    """Return the fewest nodes (a power of two) at which broadcast is faster; None up to `most`."""
    nodes = 1
    while nodes <= most:
        if broadcast(job, nodes) < direct(job, nodes):
            return nodes
        nodes *= 2
    return None


def calibrated(job: Import, nodes: int, seconds: float) -> Import:
    """Return `job` with as many operations per second as let `nodes` load directly in `seconds`."""
    _check(nodes)
    transfer = nodes * (job.size + job.large) / job.storage_rate
    left = seconds - job.start - transfer
    alone = job.requests * job.latency
    if not left > alone:
        raise BadInput(
            f"{seconds:g} s on {nodes} nodes is no longer than the import takes alone "
            f"({job.start + transfer + alone:.3g} s); the shared file system was not the limit, "
            f"measure with more nodes"
        )
    rate = nodes * job.processes * job.requests / left
    return replace(job, storage_operations=rate)


def _check(nodes: int) -> None:
    if nodes < 1 or not math.isfinite(nodes):
        raise BadInput(f"{nodes} nodes; use at least 1")
