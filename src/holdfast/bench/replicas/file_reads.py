"""Loading beside reading the same bytes from files, as in the ReStore paper's Figure 7."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
from mpi4py import MPI

from .collectives import BLOCK, MINE, Collectives
from .timed_rank import TimedCall, turns

_SHARES = {"1 %": MINE // 100 // BLOCK * BLOCK, "all": MINE}
_ROUNDS = 7


class RankFiles:
    """A file for each rank and one for all, in a directory named after what it lies on."""

    def __init__(self, comm: MPI.Intracomm, place: Path) -> None:
        self._comm = comm
        self.kind = place.name
        self._own, self._shared = place / f"rank{comm.rank}", place / "shared"
        self._own.write_bytes(np.ones(MINE, np.uint8).tobytes())
        if comm.rank == 0:
            self._shared.write_bytes(bytes(MINE * comm.size))
        comm.Barrier()
        self._handle = MPI.File.Open(comm, str(self._shared), MPI.MODE_RDONLY)
        # Files are read several times faster into memory that begins with a page.
        self._out = np.frombuffer(mmap.mmap(-1, MINE), np.uint8)
        self._out.fill(1)

    def close(self) -> None:
        """Remove the files."""
        self._handle.Close()
        self._own.unlink()
        if self._comm.rank == 0:
            self._shared.unlink()

    def contestants(self) -> Iterator[tuple[str, TimedCall]]:
        """Return the ways to read: each share from each file, warm, and on a disk also cold."""
        for share, size in _SHARES.items():
            for state in ("warm",) if self.kind == "tmpfs" else ("warm", "cold"):
                prepare = self._warm if state == "warm" else self._chill
                yield (
                    f"{share}, a file each, {self.kind}, {state}",
                    TimedCall(partial(self._read_own, size), prepare),
                )
                yield (
                    f"{share}, MPI-IO, {self.kind}, {state}",
                    TimedCall(partial(self._read_shared, size), prepare),
                )

    def _read_own(self, size: int, _: int) -> None:
        with open(self._own, "rb", buffering=0) as file:
            file.readinto(self._out[:size])  # type: ignore[arg-type]

    def _read_shared(self, size: int, _: int) -> None:
        self._handle.Read_at_all(self._comm.rank * MINE, self._out[:size])

    def _warm(self) -> None:
        self._read_own(MINE, 0)
        self._read_shared(MINE, 0)

    def _chill(self) -> None:
        for path in (self._own, self._shared):
            descriptor = os.open(path, os.O_RDONLY)
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


def files(*directories: str) -> dict[str, float]:
    """Return the seconds of loading and of reading the same bytes from files."""
    comm = MPI.COMM_WORLD
    ours = Collectives(comm)
    ours.submit(0)
    contestants = {
        "1 %, Replicas": TimedCall(ours.hundredth),
        "all, Replicas": TimedCall(ours.everything),
    }
    kinds = [RankFiles(comm, Path(directory)) for directory in directories]
    for kind in kinds:
        contestants.update(kind.contestants())
    samples = turns(comm, contestants, _ROUNDS)
    for kind in kinds:
        kind.close()
    return {name: samples.middle(name) for name in samples}
