"""Counts words in documents of different lengths; a rank dies, its documents do not.

mpiexec --with-ft ulfm -n 6 python examples/wordcount.py --kill 2
"""

from __future__ import annotations

import argparse
import os
import signal
import time
from collections import Counter

import numpy as np
from mpi4py import MPI

import holdfast
import holdfast.mpi

WORDS = ("ring", "rank", "copy", "block", "range", "node", "lost", "found", "hold", "fast")


def documents_of(rank: int, count: int) -> list[bytes]:
    rng = np.random.default_rng([2, rank])
    lengths = rng.integers(0, 60, count)
    return [" ".join(rng.choice(WORDS, length)).encode() for length in lengths]


def count_words(documents: list[bytes]) -> Counter[bytes]:
    return Counter(word for document in documents for word in bytes(document).split())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--documents", type=int, default=2000, help="documents of each rank")
    parser.add_argument("--copies", type=int, default=3)
    parser.add_argument("--kill", type=int, default=-1, help="the rank that dies")
    options = parser.parse_args()
    world = MPI.COMM_WORLD
    documents = documents_of(world.rank, options.documents)
    start = time.perf_counter()
    store = holdfast.Replicas(world, copies=min(options.copies, world.size))
    store.submit_many(documents)
    shares = holdfast.Shares([options.documents] * world.size)
    if world.rank == options.kill:
        os.kill(os.getpid(), signal.SIGKILL)

    mine, missing, total = count_words(documents), [], None
    cost = 0.0
    while total is None:
        try:
            with store.guard():
                # Ranks with nothing to fetch take part, to serve the others.
                before = time.perf_counter()
                gained = store.load_many(missing)
                if cost:  # a rank has died, and this got its documents
                    cost += time.perf_counter() - before
                mine, missing = mine + count_words(gained), []
                total = store.comm.allreduce(mine)
        except holdfast.RanksFailed:
            before = time.perf_counter()
            recovery = store.recover()
            missing += shares.lose(recovery.ranks)[store.comm.rank]
            cost += time.perf_counter() - before
    if store.comm.rank == 0:
        expected = sum(
            (count_words(documents_of(rank, options.documents)) for rank in range(world.size)),
            Counter(),
        )
        print(
            f"{store.comm.size} of {world.size} ranks counted {total.total()} words in "
            f"{world.size * options.documents} documents "
            f"({'as many as there are' if total == expected else 'WRONG'}); "
            f"{time.perf_counter() - start:.2f} s, of which the failure cost {1e3 * cost:.1f} ms"
        )
    holdfast.mpi.finish(store.comm, 0 if store.comm.rank or total == expected else 1)


main()
