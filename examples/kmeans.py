"""k-means that loses a rank and goes on: the data of the dead rank comes from copies in memory.

    mpiexec --with-ft ulfm -n 8 python examples/kmeans.py --kill 3 --at 20

Every rank has `--points` points of its own. Rank `--kill` really dies, by SIGKILL, in iteration
`--at`; the others divide its points among themselves. The centres are those of a run without
failure, up to rounding.
"""

from __future__ import annotations

import argparse
import os
import signal
import time

# One rank for each core: more threads in each would only get in the way.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from mpi4py import MPI

import holdfast
import holdfast.mpi

DIMENSIONS, CENTRES = 32, 20
POINT_BYTES = 8 * DIMENSIONS


def points_of(rank: int, count: int) -> np.ndarray:
    rng = np.random.default_rng([1, rank])
    return rng.normal(rng.integers(0, 10, (count, 1)), 1.0, (count, DIMENSIONS))


def sums(points: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """Return, for each centre, the sum of the points nearest to it, and how many they are."""
    nearest = (points @ centres.T - (centres**2).sum(axis=1) / 2).argmax(axis=1)
    member = (nearest == np.arange(CENTRES)[:, None]).astype(float)
    return np.hstack((member @ points, member.sum(axis=1)[:, None]))


def newest(comm: MPI.Intracomm, iteration: int, centres: np.ndarray) -> tuple[int, np.ndarray]:
    """Bring all ranks to the last iteration that any of them finished."""
    reached = comm.allgather(iteration)
    return comm.bcast((iteration, centres), root=int(np.argmax(reached)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--points", type=int, default=65536, help="points of each rank")
    parser.add_argument("--iterations", type=int, default=50)
    parser.add_argument("--copies", type=int, default=4)
    parser.add_argument("--kill", type=int, default=-1, help="the rank that dies")
    parser.add_argument("--at", type=int, default=10, help="the iteration that it dies in")
    parser.add_argument("--save", help="write the centres to this file")
    options = parser.parse_args()
    cluster(MPI.COMM_WORLD, options)


def cluster(world: MPI.Intracomm, options: argparse.Namespace) -> None:
    me = world.rank
    mine = points_of(me, options.points)
    centres = points_of(world.size, CENTRES)

    start = time.perf_counter()
    store = holdfast.Replicas(world, copies=min(options.copies, world.size))
    shares = holdfast.Shares([options.points] * world.size)
    store.submit(mine, block_bytes=POINT_BYTES)
    submitting = time.perf_counter() - start
    recovering = loading = 0.0
    held, missing = [mine], []
    iteration, behind = 0, False
    while iteration < options.iterations:
        if me == options.kill and iteration == options.at:
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            with store.guard():
                if behind:
                    before = time.perf_counter()
                    gained = store.load(missing).view(float).reshape(-1, DIMENSIONS)
                    loading += time.perf_counter() - before
                    iteration, centres = newest(store.comm, iteration, centres)
                    held, missing, behind = [*held, gained], [], False
                    continue
                part = sum(sums(points, centres) for points in held)
                total = np.empty_like(part)
                store.comm.Allreduce(part, total)
        except holdfast.RanksFailed:
            before = time.perf_counter()
            recovery = store.recover()
            recovering += time.perf_counter() - before
            missing += shares.lose(recovery.ranks)[store.comm.rank]
            behind = True
            continue
        centres = total[:, :-1] / np.maximum(total[:, -1:], 1)
        iteration += 1
    whole = time.perf_counter() - start
    if store.comm.rank == 0:
        share = 100 * (submitting + recovering + loading) / whole
        print(
            f"{store.comm.size} of {world.size} ranks finished {iteration} iterations "
            f"in {whole:.2f} s; in Replicas {share:.2f} %: submit {1e3 * submitting:.1f} ms, "
            f"recover {1e3 * recovering:.1f} ms, load {1e3 * loading:.1f} ms"
        )
        if options.save:
            np.save(options.save, centres)
    holdfast.mpi.finish(store.comm)


main()
