"""What the ranks of `holdfast bench replicas` run; started by mpiexec, never by hand.

usage: python -m holdfast.cli.bench.replicas_ranks PART RESULT [DIRECTORY ...]

Rank 0 of those that are left writes {name: seconds} to RESULT; times are medians of the slowest
rank.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, NoReturn

import numpy as np
from mpi4py import MPI

from holdfast import mpi
from holdfast.errors import RanksFailed
from holdfast.replicas import Replicas, Shares
from holdfast.replicas.store import RANGE_BYTES

MIB = 1 << 20
BLOCK, MINE, COPIES = 64, 16 * MIB, 4
BLOCKS = MINE // BLOCK


def timed(comm: MPI.Intracomm, action: Callable[[int], Any], repeat: int = 9) -> float:
    """Median over repetitions of the time of the slowest rank; the first one is not counted."""
    return median([once(comm, action, turn) for turn in range(repeat + 1)][1:])


def once(comm: MPI.Intracomm, action: Callable[[int], Any], turn: int = 0) -> float:
    """Return the time of the slowest rank, by its own clock from a common barrier."""
    comm.Barrier()
    start = time.perf_counter()
    action(turn)
    spent = np.array([time.perf_counter() - start])
    comm.Allreduce(MPI.IN_PLACE, spent, MPI.MAX)
    return float(spent[0])


def part_of(first: int, count: int, index: int, parts: int) -> list[tuple[int, int]]:
    """Return part `index` of a run of blocks divided evenly."""
    low, high = (first + count * i // parts for i in (index, index + 1))
    return [(low, high - low)]


def one_percent(comm: MPI.Intracomm, turn: int) -> list[tuple[int, int]]:
    """Return this rank's part of a hundredth of all blocks, another hundredth at each turn."""
    total = comm.size * BLOCKS
    count = total // 100
    return part_of(turn * 7919 * 64 % (total - count), count, comm.rank, comm.size)


def bulk() -> dict[str, float]:
    """Submit and load, beside memcpy of as many bytes as all copies have."""
    comm = MPI.COMM_WORLD
    source = np.random.default_rng(comm.rank).integers(0, 256, MINE, np.uint8)
    copies = np.ones((COPIES, MINE), np.uint8)
    out = np.ones(MINE, np.uint8)
    store = Replicas(comm, COPIES)

    def memcpy(_: int) -> None:
        for copy in copies:
            copy[:] = source

    def scatter(turn: int) -> None:
        whose = turn % comm.size * BLOCKS
        mine = part_of(whose, BLOCKS, comm.rank, comm.size)
        store.load(mine, out=out[: mine[0][1] * BLOCK])

    def hundredth(turn: int) -> None:
        mine = one_percent(comm, turn)
        store.load(mine, out=out[: mine[0][1] * BLOCK])

    def everything(_: int) -> None:
        store.load([((comm.rank + 1) % comm.size * BLOCKS, BLOCKS)], out=out)

    results = {"memcpy": timed(comm, memcpy)}
    results["submit"] = timed(comm, lambda _: store.submit(source, block_bytes=BLOCK))
    results["scatter"] = timed(comm, scatter, 15)
    results["load all"] = timed(comm, everything)
    results["load 1 %"] = timed(comm, hundredth, 25)
    results["memcpy"] = min(results["memcpy"], timed(comm, memcpy))
    return results


def calls(order: str, range_bytes: str = RANGE_BYTES) -> dict[str, float]:
    """Submit and load in ranges of a size, permuted or in order."""
    comm = MPI.COMM_WORLD
    source = np.random.default_rng(comm.rank).integers(0, 256, MINE, np.uint8)
    out = np.ones(MINE, np.uint8)
    store = Replicas(comm, COPIES, range_bytes, permute=order == "permuted")

    def hundredth(turn: int) -> None:
        mine = one_percent(comm, turn)
        store.load(mine, out=out[: mine[0][1] * BLOCK])

    def everything(_: int) -> None:
        store.load([((comm.rank + 1) % comm.size * BLOCKS, BLOCKS)], out=out)

    return {
        "submit": timed(comm, lambda _: store.submit(source, block_bytes=BLOCK), 5),
        "load 1 %": timed(comm, hundredth, 25),
        "load all": timed(comm, everything, 5),
    }


def files(*directories: str) -> dict[str, float]:
    """Read the same bytes from a file for each rank, and from one file by MPI-IO."""
    comm = MPI.COMM_WORLD
    out = np.ones(MINE, np.uint8)
    results = {}
    for place in directories:
        kind = Path(place).name
        own, shared = Path(place, f"rank{comm.rank}"), Path(place, "shared")
        own.write_bytes(np.ones(MINE, np.uint8).tobytes())
        if comm.rank == 0:
            shared.write_bytes(bytes(MINE * comm.size))
        comm.Barrier()
        for share, count in (("1 %", MINE // 100 // BLOCK * BLOCK), ("all", MINE)):
            for cold in (False, True) if kind == "disk" else (False,):
                handle = MPI.File.Open(comm, str(shared), MPI.MODE_RDONLY)

                def chill(paths: tuple[Path, ...] = (own, shared) if cold else ()) -> None:
                    for path in paths:
                        descriptor = os.open(path, os.O_RDONLY)
                        os.fsync(descriptor)
                        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
                        os.close(descriptor)
                    comm.Barrier()

                def read_own(_: int, count: int = count, own: Path = own) -> None:
                    with open(own, "rb", buffering=0) as file:
                        file.readinto(out[:count])  # type: ignore[arg-type]

                def read_shared(_: int, count: int = count, handle: MPI.File = handle) -> None:
                    handle.Read_at_all(comm.rank * MINE, out[:count])

                for how, action in (("a file each", read_own), ("MPI-IO", read_shared)):
                    times = []
                    for turn in range(5):
                        chill()
                        start = time.perf_counter()
                        action(turn)
                        slowest = comm.allreduce(time.perf_counter() - start, MPI.MAX)
                        times.append(slowest)
                    key = f"{share}, {how}, {kind}, {'cold' if cold else 'warm'}"
                    results[key] = median(times[1:])
                handle.Close()
        own.unlink()
        comm.Barrier()
        if comm.rank == 0:
            shared.unlink()
    return results


def death(directory: str) -> NoReturn:
    """From SIGKILL of a rank until its data is with the others; then restoring its copies."""
    comm = MPI.COMM_WORLD
    source = np.random.default_rng(comm.rank).integers(0, 256, MINE, np.uint8)
    store = Replicas(comm, COPIES)
    store.submit(source, block_bytes=BLOCK)
    shares = Shares([BLOCKS] * comm.size)
    # Both have been used once, as in a program that has run for a while.
    store.load(one_percent(comm, 0))
    begin = _die(comm, Path(directory, "killed"))
    try:
        with store.guard():
            store.comm.Barrier()
    except RanksFailed:
        recovery = store.recover()
    store.load(shares.lose(recovery.ranks)[store.comm.rank])
    results = {"kill to data": _since(store.comm, begin)}
    results["restore copies"] = once(store.comm, lambda _: store.restore_copies())
    lost = part_of(0, COPIES * BLOCKS, store.comm.rank, store.comm.size)
    out = np.ones(lost[0][1] * BLOCK, np.uint8)
    results["scatter 64 MiB"] = timed(store.comm, lambda _: store.load(lost, out=out), 5)
    _write(store.comm, results)


def bare(directory: str) -> NoReturn:
    """From SIGKILL of a rank until ULFM has a communicator without it."""
    comm = mpi.settle(MPI.COMM_WORLD.Dup())
    comm.Barrier()
    begin = _die(comm, Path(directory, "killed"))
    try:
        comm.Barrier()
    except MPI.Exception:
        mpi.revoke(comm)
    left = mpi.settle(comm.Shrink())
    _write(left, {"detect and shrink": _since(left, begin)})


def _die(comm: MPI.Intracomm, note: Path) -> Path:
    comm.Barrier()
    if comm.rank == 3:
        note.write_text(repr(time.monotonic()))
        os.kill(os.getpid(), signal.SIGKILL)
    return note


def _since(comm: MPI.Intracomm, note: Path) -> float:
    return float(comm.allreduce(time.monotonic() - float(note.read_text()), MPI.MAX))


def _write(comm: MPI.Intracomm, results: dict[str, float]) -> NoReturn:
    if comm.rank == 0:
        Path(sys.argv[2]).write_text(json.dumps(results))
    mpi.finish(comm)


def main() -> None:
    """Run one part."""
    parts: dict[str, Callable[..., dict[str, float]]] = {
        "bulk": bulk, "calls": calls, "files": files, "death": death, "bare": bare
    }  # fmt: skip
    _write(MPI.COMM_WORLD, parts[sys.argv[1]](*sys.argv[3:]))


if __name__ == "__main__":
    main()
