"""Submitting and loading, beside memcpy."""

from __future__ import annotations

from typing import Any

import numpy as np
from mpi4py import MPI

from holdfast.replicas import Replicas
from holdfast.replicas.replicas import RANGE_BYTES

from .timed_rank import TimedCall, turns

MIB = 1 << 20
BLOCK, MINE, COPIES = 64, 16 * MIB, 4
BLOCKS = MINE // BLOCK
_ROUNDS, _ROUNDS_OF_MANY = 25, 5


def part_of(first: int, count: int, index: int, parts: int) -> list[tuple[int, int]]:
    """Return part `index` of a run of blocks divided evenly."""
    low, high = (first + count * i // parts for i in (index, index + 1))
    return [(low, high - low)]


def one_percent(comm: MPI.Intracomm, turn: int) -> list[tuple[int, int]]:
    """Return this rank's part of a hundredth of all blocks, another hundredth at each turn."""
    total = comm.size * BLOCKS
    count = total // 100
    return part_of(turn * 7919 * 64 % (total - count), count, comm.rank, comm.size)


class Collectives:
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


def measured(comm: MPI.Intracomm, stores: dict[str, Collectives], rounds: int) -> dict[str, float]:
    """Measure the calls in several stores; return them in units of a memcpy of all copies.

    The names of calls end with those of their stores; `memcpy` is in seconds.
    """
    source = next(iter(stores.values())).source
    copies = np.ones((COPIES, MINE), np.uint8)

    def memcpy(_: int) -> None:
        for copy in copies:
            copy[:] = source

    contestants = {}
    for name, store in stores.items():
        contestants[f"submit{name}"] = TimedCall(store.submit)
        contestants[f"scatter{name}"] = TimedCall(store.scatter)
        contestants[f"load all{name}"] = TimedCall(store.everything)
        contestants[f"load 1 %{name}"] = TimedCall(store.hundredth)
    samples = turns(comm, contestants | {"memcpy": TimedCall(memcpy)}, rounds)
    ratios = {name: samples.ratio(name, "memcpy") for name in contestants}
    return ratios | {"memcpy": samples.middle("memcpy")}


def bulk() -> dict[str, float]:
    """Measure the calls as a user gets them."""
    comm = MPI.COMM_WORLD
    return measured(comm, {"": Collectives(comm)}, _ROUNDS)


def orders(range_bytes: str = RANGE_BYTES) -> dict[str, float]:
    """Measure the calls in ranges of a size, permuted and in order."""
    comm = MPI.COMM_WORLD
    stores = {
        f", {order}": Collectives(comm, range_bytes=range_bytes, permute=order == "permuted")
        for order in ("permuted", "in order")
    }
    return measured(comm, stores, _ROUNDS_OF_MANY)
