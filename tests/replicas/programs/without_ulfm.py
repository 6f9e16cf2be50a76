"""On an MPI that cannot go on after a failure. usage: without_ulfm.py recover|die"""

from __future__ import annotations

import os
import signal
import sys

import numpy as np
import pytest
from mpi4py import MPI

from holdfast.errors import HoldfastError
from holdfast.replicas import Replicas

world = MPI.COMM_WORLD
store = Replicas(world, copies=2)
store.submit(np.full(6400, world.rank, np.uint8))
if sys.argv[1] == "die":
    print("submitted", flush=True)
    world.Barrier()
    if world.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    while True:
        store.load([(0, 300)])
with pytest.raises(HoldfastError, match="mpiexec --with-ft ulfm"):
    store.recover()
print(MPI.Get_library_version().split()[0], "cannot recover")
