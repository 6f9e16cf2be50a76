"""Ranks die while megabytes in small pieces are on their way between all others.

usage: under_way.py SEED

What MPI was moving between two ranks that live goes on moving when a third one dies and both have
given up the call: its memory must not be used for anything else until it has arrived.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading

import numpy as np
from mpi4py import MPI

from holdfast import mpi
from holdfast.errors import RanksFailed
from holdfast.replicas import Replicas

EACH, BLOCK, LEFT = 100_000, 64, 3
world = MPI.COMM_WORLD
rng = np.random.default_rng(int(sys.argv[1]))


def content(first: int, count: int, version: int) -> np.ndarray:
    return np.repeat((np.arange(first, first + count) * 7 + version).astype(np.uint8), BLOCK)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


store = Replicas(world, copies=2, range_bytes=4096)
version = store.submit(content(EACH * world.rank, EACH, 1))
total = EACH * world.size
for victim in rng.permutation(world.size)[LEFT:].tolist():
    delay, submits = rng.random() * 0.08, bool(rng.random() < 0.5)
    if world.rank == victim:
        threading.Timer(delay, die).start()
    try:
        while True:
            if submits:
                first, end = (total * (store.comm.rank + k) // store.comm.size for k in (0, 1))
                version = store.submit(content(first, end - first, version + 1))
            else:
                store.load([(0, 2 * EACH)])
    except RanksFailed:
        version = store.recover().versions["default"]
    gc.collect()
    filled = [np.full(EACH * BLOCK, 255, np.uint8) for _ in range(6)]
    store.restore_copies()
    first = int(rng.integers(total // 2))
    got = store.load([(first, total // 2)])
    assert np.array_equal(got, content(first, total // 2, version)), "wrong bytes"
    assert all((array == 255).all() for array in filled), "somebody wrote into our memory"
if store.comm.rank == 0:
    print(f"{store.comm.size} ranks are left")
mpi.finish(store.comm)
