"""A block of more than 2 GiB, and more than 2 GiB of small blocks to one rank."""

from __future__ import annotations

import numpy as np
from mpi4py import MPI

from holdfast import mpi
from holdfast.replicas import Replicas

SIZE = (2 << 30) + (96 << 20)
me = MPI.COMM_WORLD.rank
store = Replicas(MPI.COMM_WORLD, copies=1, range_bytes="16 KiB", permute=False)
data = np.arange(SIZE // 8 if me == 0 else 0, dtype=np.int64)
for block_bytes in (SIZE, 4096):
    store.submit(data, block_bytes=block_bytes)
    # One copy, and it lies on rank 0: rank 1 gets all of it by messages.
    got = store.load([(0, SIZE // block_bytes)] if me == 1 else []).view(np.int64)
    assert me == 0 or bool((got == np.arange(SIZE // 8)).all())
    del got
mpi.finish(store.comm)
