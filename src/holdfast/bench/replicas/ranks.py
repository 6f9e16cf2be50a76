"""What the ranks of `holdfast bench replicas` run; started by mpiexec, never by hand.

usage: python -m holdfast.bench.replicas.ranks PART RESULT [ARGUMENT ...]

Rank 0 of those that are left writes {name: number} to RESULT.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from mpi4py import MPI

from holdfast import mpi

from .collectives import bulk, orders
from .deaths import bare, death
from .file_reads import files
from .timed_rank import pin

_PARTS = {"bulk": bulk, "orders": orders, "files": files}
_DEADLY = {"death": death, "bare": bare}


def main() -> None:
    """Run one part."""
    comm, (_, part, result, *arguments) = MPI.COMM_WORLD, sys.argv
    pin(comm.rank)
    if part in _DEADLY:
        comm, results = _DEADLY[part](*arguments)
    else:
        results = _PARTS[part](*arguments)
    if comm.rank == 0:
        Path(result).write_text(json.dumps(results))
    mpi.finish(comm)


if __name__ == "__main__":
    main()
