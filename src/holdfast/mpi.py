"""What MPI programs that lose ranks need beside `holdfast.Replicas`.

Surviving a failure takes an MPI with user-level failure mitigation (ULFM), such as Open MPI 5
under ``mpiexec --with-ft ulfm``. Everything here also runs on any other MPI, up to the first
failure.
"""

from __future__ import annotations

import os
import sys
import time
from array import array
from typing import NoReturn

from mpi4py import MPI

from .errors import BadInput, HoldfastError, RanksFailed

#: What a program is told that meets a failure on an MPI that cannot go on after one.
NO_ULFM = (
    "a rank failed, and this MPI cannot go on without it; start the program with Open MPI 5 "
    "as `mpiexec --with-ft ulfm ...` (pip install 'holdfast[mpi]' brings it)"
)

_FAILURES = tuple(
    code
    for name in ("ERR_PROC_FAILED", "ERR_PROC_FAILED_PENDING", "ERR_REVOKED")
    if (code := getattr(MPI, name, MPI.ERR_UNKNOWN)) != MPI.ERR_UNKNOWN
)
_POLL = 0.002


def prepare(comm: MPI.Intracomm) -> MPI.Intracomm:
    """Return `comm` set to report errors instead of ending the program."""
    comm.Set_errhandler(MPI.ERRORS_RETURN)
    return comm


def is_failure(error: MPI.Exception, comm: MPI.Intracomm) -> bool:
    """Whether `error` means that a rank of `comm` died, or that another rank has said so."""
    if error.Get_error_class() in _FAILURES:
        return True
    # Waiting for several messages reports only that one of them has an error.
    return bool(_FAILURES) and (bool(failed_ranks(comm)) or _is_revoked(comm))


def failed_ranks(comm: MPI.Intracomm) -> tuple[int, ...]:
    """Return the ranks of `comm` that are known here to have died."""
    try:
        failed = comm.Get_failed()
    except (NotImplementedError, MPI.Exception):
        return ()
    try:
        group = comm.Get_group()
        ranks = MPI.Group.Translate_ranks(failed, list(range(failed.size)), group)
        group.Free()
        return tuple(sorted(int(rank) for rank in ranks))
    finally:
        failed.Free()


def ranks_failed(comm: MPI.Intracomm) -> RanksFailed:
    """Describe a failure of ranks in `comm`, waking up all that still wait in it."""
    revoke(comm)
    ranks = failed_ranks(comm)
    if not ranks:
        who = "a rank died"
    elif len(ranks) == 1:
        who = f"rank {ranks[0]} died"
    else:
        who = f"ranks {', '.join(map(str, ranks))} died"
    return RanksFailed(f"{who}; call recover() on every rank that is left, then go on", ranks)


def revoke(comm: MPI.Intracomm) -> None:
    """Make every pending and later call in `comm` fail, on all ranks."""
    try:
        comm.Revoke()
    except (NotImplementedError, MPI.Exception) as error:
        raise HoldfastError(NO_ULFM) from error


def _is_revoked(comm: MPI.Intracomm) -> bool:
    try:
        return bool(comm.Is_revoked())
    except (NotImplementedError, MPI.Exception):
        return False


def agree(comm: MPI.Intracomm, flags: int) -> int | None:
    """Return the AND of all ranks' `flags`, or None if ranks died: the same on all that live."""
    try:
        return int(comm.Agree(flags))
    except NotImplementedError:
        return int(comm.allreduce(flags, MPI.BAND))
    except MPI.Exception as error:
        if is_failure(error, comm):
            return None
        raise


def _wait_for_call(comm: MPI.Intracomm) -> int:
    """Take part in the next agreement in `comm` without keeping a core busy."""
    flags = array("i", [-1])
    try:
        request = comm.Iagree(flags)
        while not request.Test():
            time.sleep(_POLL)
        return flags[0]
    except NotImplementedError:
        return int(comm.allreduce(-1, MPI.BAND))
    except MPI.Exception:
        return max(flags[0], 0)  # dead ranks make it an error; the answer is there all the same


class Crew:
    """The ranks of a program, some held back: `comm` is for those at work, None on spares."""

    def __init__(self, everyone: MPI.Intracomm, spares: int) -> None:
        self.everyone = prepare(everyone.Dup())
        self.spare = everyone.rank >= everyone.size - spares
        part = prepare(self.everyone.Split(int(self.spare), everyone.rank))
        self.comm = None if self.spare else part

    def call_spares(self) -> None:
        """Wake up the spares because a rank died; the whole crew meets in `everyone`."""
        agree(self.everyone, 0)

    def wait(self) -> bool:
        """Wait, on a spare, until it is needed (True) or the others have finished (False)."""
        return _wait_for_call(self.everyone) == 0


def split_spares(comm: MPI.Intracomm, count: int) -> Crew:
    """Hold back the last `count` ranks of `comm` to take the places of ranks that die."""
    if not 0 <= count < comm.size:
        raise BadInput(
            f"{count} spares of {comm.size} ranks; hold back at least 0, leave at least 1 to work"
        )
    return Crew(comm, count)


def finish(comm: MPI.Intracomm | Crew, code: int = 0) -> NoReturn:
    """End this process with `code` once all that live have come here; call it last, on all ranks.

    After a failure, leaving MPI the normal way may hang; this never calls MPI_Finalize.
    """
    everyone = comm.everyone if isinstance(comm, Crew) else prepare(comm)
    try:
        if not (isinstance(comm, Crew) and comm.spare):
            agree(everyone, 1)
    except MPI.Exception:
        code = code or 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
