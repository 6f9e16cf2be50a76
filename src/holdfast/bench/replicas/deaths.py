"""From the death of a rank until its data is with the others, beside bare ULFM."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import numpy as np
from mpi4py import MPI

from holdfast import mpi
from holdfast.errors import RanksFailed
from holdfast.replicas import Replicas, Shares

from .collectives import BLOCK, BLOCKS, COPIES, MINE, one_percent, part_of
from .timed_rank import TimedCall, once, turns

Results = tuple[MPI.Intracomm, dict[str, float]]


def death(directory: str) -> Results:
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
    results["restore copies"] = once(store.comm, store.restore_copies)
    lost = part_of(0, COPIES * BLOCKS, store.comm.rank, store.comm.size)
    out = np.ones(lost[0][1] * BLOCK, np.uint8)
    scatter = {"scatter 64 MiB": TimedCall(lambda _: store.load(lost, out=out))}
    results["scatter 64 MiB"] = turns(store.comm, scatter, 5).middle("scatter 64 MiB")
    return store.comm, results


def bare(directory: str) -> Results:
    """From SIGKILL of a rank until ULFM has a communicator without it."""
    comm = mpi.settle(MPI.COMM_WORLD.Dup())
    comm.Barrier()
    begin = _die(comm, Path(directory, "killed"))
    try:
        comm.Barrier()
    except MPI.Exception:
        mpi.revoke(comm)
    left = comm.Shrink()
    results = {"detect and shrink": _since(left, begin)}
    return mpi.settle(left), results


def _die(comm: MPI.Intracomm, note: Path) -> Path:
    comm.Barrier()
    if comm.rank == 3:
        note.write_text(repr(time.monotonic()))
        os.kill(os.getpid(), signal.SIGKILL)
    return note


def _since(comm: MPI.Comm, note: Path) -> float:
    return float(comm.allreduce(time.monotonic() - float(note.read_text()), MPI.MAX))
