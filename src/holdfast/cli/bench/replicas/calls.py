"""Submitting and loading, beside memcpy."""

from __future__ import annotations

from typing import Any

import numpy as np
from mpi4py import MPI

from holdfast.replicas import Replicas
from holdfast.replicas.store import RANGE_BYTES

from .measuring import Contestant, turns

MIB = 1 << 20
BLOCK, MINE, COPIES = 64, 16 * MIB, 4
BLOCKS = MINE // BLOCK
_ROUNDS, _ROUNDS_OF_MANY = 25, 7


def part_of(first: int, count: int, index: int, parts: int) -> list[tuple[int, int]]:
    """Return part `index` of a run of blocks divided evenly."""
    low, high = (first + count * i // parts for i in (index, index + 1))
    return [(low, high - low)]


def one_percent(comm: MPI.Intracomm, turn: int) -> list[tuple[int, int]]:
    """Return this rank's part of a hundredth of all blocks, another hundredth at each turn."""
    total = comm.size * BLOCKS
    count = total // 100
    return part_of(turn * 7919 * 64 % (total - count), count, comm.rank, comm.size)


class Calls:
    """A store, and the calls that are measured in it."""

    def __init__(self, comm: MPI.Intracomm, **options: Any) -> None:
        self.source = np.random.default_rng(comm.rank).integers(0, 256, MINE, np.uint8)
        self._comm = comm
        self._out = np.ones(MINE, np.uint8)
        self._store = Replicas(comm, COPIES, **options)

    def submit(self, _: int) -> None:
        """Submit what every rank has, as a new version."""
        self._store.submit(self.source, block_bytes=BLOCK)

    def scatter(self, turn: int) -> None:
        """Divide one rank's blocks among all, another rank's at each turn."""
        comm = self._comm
        self._load(part_of(turn % comm.size * BLOCKS, BLOCKS, comm.rank, comm.size))

    def hundredth(self, turn: int) -> None:
        """Divide a hundredth of all blocks among all, another hundredth at each turn."""
        self._load(one_percent(self._comm, turn))

    def everything(self, _: int) -> None:
        """Load all blocks, each rank those of its right neighbour."""
        comm = self._comm
        self._load([((comm.rank + 1) % comm.size * BLOCKS, BLOCKS)])

    def _load(self, ranges: list[tuple[int, int]]) -> None:
        self._store.load(ranges, out=self._out[: ranges[0][1] * BLOCK])


def bulk() -> dict[str, float]:
    """Return the seconds of a memcpy of as many bytes as all copies have; calls, in units of it."""
    comm = MPI.COMM_WORLD
    ours = Calls(comm)
    copies = np.ones((COPIES, MINE), np.uint8)

    def memcpy(_: int) -> None:
        for copy in copies:
            copy[:] = ours.source

    calls = {
        "submit": ours.submit, "memcpy": memcpy, "scatter": ours.scatter,
        "load all": ours.everything, "load 1 %": ours.hundredth,
    }  # fmt: skip
    samples = turns(comm, {name: Contestant(call) for name, call in calls.items()}, _ROUNDS)
    ratios = {name: samples.ratio(name, "memcpy") for name in calls if name != "memcpy"}
    return ratios | {"memcpy": samples.middle("memcpy")}


def orders(range_bytes: str = RANGE_BYTES) -> dict[str, float]:
    """Return the seconds of calls in ranges of a size, permuted and in order."""
    comm = MPI.COMM_WORLD
    contestants = {}
    for order in ("permuted", "in order"):
        ours = Calls(comm, range_bytes=range_bytes, permute=order == "permuted")
        contestants[f"submit, {order}"] = Contestant(ours.submit)
        contestants[f"load 1 %, {order}"] = Contestant(ours.hundredth)
        contestants[f"load all, {order}"] = Contestant(ours.everything)
    samples = turns(comm, contestants, _ROUNDS_OF_MANY)
    return {name: samples.middle(name) for name in samples}
