"""An import storm on the trees that a broadcast uses: each file goes up and down its own tree.

Every node's processes want the same files in the same order, each after the one before. A request
climbs until it meets the file or another request for it; the head reads the shared file system;
answers come down hop by hop, and a node sends to one child at a time, whatever file it is of.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .imports import Import

Times = npt.NDArray[np.float64]


def broadcast(job: Import, nodes: int, rng: np.random.Generator) -> float:
    """Return the seconds until all nodes have loaded everything; racks are left out."""
    levels = _levels(nodes, job.degree)
    parents = (np.arange(nodes) - 1) // job.degree
    size = job.size / job.files
    read = job.operations * job.latency + size / job.storage_rate
    send, work = size / job.network, job.start / job.files
    ready = np.zeros(nodes)  # when each node asks for the next file
    link = np.zeros(nodes)  # until when each node is busy sending
    for _ in range(job.files):
        standing = _standing(nodes, rng)  # who stands at each position of this file's tree
        asked = ready[standing]
        for level in reversed(levels[1:]):
            np.minimum.at(asked, parents[level], asked[level] + job.hop / 2)
        have = np.empty(nodes)
        have[0] = asked[0] + read
        free = link[standing]
        for level in levels[1:]:
            # Children of one node stand side by side, and are served one after the other.
            turn = (level - 1) % job.degree
            begin = np.maximum(np.maximum(have[parents[level]], asked[level]), free[parents[level]])
            have[level] = begin + (turn + 1) * send + job.hop / 2
            np.maximum.at(free, parents[level], have[level] - job.hop / 2)
        link[standing] = free
        ready[standing] = np.maximum(have, ready[standing]) + work
    return float(ready.max())


def _levels(nodes: int, degree: int) -> list[npt.NDArray[np.int64]]:
    levels, first, width = [], 0, 1
    while first < nodes:
        levels.append(np.arange(first, min(first + width, nodes)))
        first, width = first + width, width * degree
    return levels


def _standing(nodes: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """Return the nodes by their position, as holdfast.placement.trees has them in one rack."""
    head = int(rng.integers(nodes))
    others = np.delete(np.arange(nodes), head)
    turned = np.roll(others, -int(rng.integers(max(1, nodes - 1))))
    return np.concatenate(([head], turned))
