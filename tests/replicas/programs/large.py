"""A block of more than 2 GiB, and more than 2 GiB of small blocks to one rank."""

from __future__ import annotations

import numpy as np
from mpi4py import MPI

from holdfast import mpi
from holdfast.replicas import Replicas

SIZE = (2 << 30) + (96 << 20)
me = MPI.COMM_WORLD.rank
store = Replicas(MPI.COMM_WORLD, copies=1, range_bytes="16 KiB", permute=False)
data = np.arange(SIZE // 8, dtype=np.int64)
for block_bytes in (SIZE, 4096):
    store.submit(data if me == 0 else b"", block_bytes=block_bytes)
    # One copy, the first half (or the only block) on rank 0: rank 1 gets it by messages, twice.
    count = SIZE // block_bytes
    half = max(1, count // 2)
    got = store.load([(0, half)] * min(count, 2) if me == 1 else []).view(np.int64)
    assert store.memory().in_flight >= SIZE
    assert me == 0 or bool((got == np.tile(data[: half * block_bytes // 8], min(count, 2))).all())
    del got
mpi.finish(store.comm)
