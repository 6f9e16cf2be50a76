"""What MPI programs that lose ranks need beside `holdfast.Replicas`.

Surviving a failure takes an MPI with user-level failure mitigation (ULFM), such as Open MPI 5
under ``mpiexec --with-ft ulfm``. Everything here also runs on any other MPI, up to the first
failure.
"""

from __future__ import annotations

import ctypes
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


def settle(comm: MPI.Comm) -> MPI.Intracomm:
    """Return a communicator that has just been made, once all ranks that live have it.

    From then on it reports errors instead of ending the program. Open MPI crashes when a
    communicator is revoked while another rank is still at making it.
    """
    assert isinstance(comm, MPI.Intracomm)
    comm.Set_errhandler(MPI.ERRORS_RETURN)
    agree(comm, 1)
    return comm


def is_failure(error: MPI.Exception, comm: MPI.Intracomm) -> bool:
    """Whether `error` means that a rank of `comm` died, or that another rank has said so."""
    # Waiting for several messages reports only that one of them has an error.
    return error.Get_error_class() in _FAILURES or is_broken(comm)


def is_broken(comm: MPI.Intracomm) -> bool:
    """Whether a rank of `comm` is known to have died, or another rank has said so."""
    try:
        if comm.Is_revoked():
            return True
        failed = comm.Get_failed()
        dead = failed.size
        failed.Free()
        return dead > 0
    except (NotImplementedError, MPI.Exception):
        return False


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
    if _ulfm_is_off():
        raise HoldfastError(NO_ULFM)
    try:
        comm.Revoke()
    except (NotImplementedError, MPI.Exception) as error:
        raise HoldfastError(NO_ULFM) from error


def _ulfm_is_off() -> bool:
    """Whether this is an Open MPI that was started without it: there, its calls hang."""
    try:
        return not ctypes.c_bool.in_dll(ctypes.CDLL(MPI.__file__), "ompi_ftmpi_enabled")
    except ValueError:  # another MPI, whose calls say so
        return False


def agree(comm: MPI.Intracomm, flags: int, poll: float = 0) -> int:
    """Return the AND of the `flags` of all ranks that live: the same on all of them.

    With `poll`, look only once in this many seconds, so as not to keep a core busy.
    """
    # Whether MPI reports a failure beside the answer may differ from rank to rank; the answer
    # does not. Only the non-blocking form hands over both.
    answer = array("i", [flags])
    try:
        request = comm.Iagree(answer)
        while poll and not request.Test():
            time.sleep(poll)
        request.Wait()
    except NotImplementedError:
        return int(comm.allreduce(flags, MPI.BAND))
    except MPI.Exception as error:
        if not is_failure(error, comm):
            raise
    return answer[0]


class Crew:
    """The ranks of a program, some held back: `comm` is for those at work, None on spares."""

    def __init__(self, everyone: MPI.Intracomm, spares: int) -> None:
        self.everyone = settle(everyone.Dup())
        self.spare = everyone.rank >= everyone.size - spares
        part = settle(self.everyone.Split(int(self.spare), everyone.rank))
        self.comm = None if self.spare else part

    def call_spares(self) -> None:
        """Wake up the spares because a rank died; the whole crew meets in `everyone`."""
        agree(self.everyone, 0)

    def wait(self) -> bool:
        """Wait, on a spare, until it is needed (True) or the others have finished (False)."""
        return agree(self.everyone, -1, _POLL) == 0


def split_spares(comm: MPI.Intracomm, count: int) -> Crew:
    """Hold back the last `count` ranks of `comm` to take the places of ranks that die."""
    if not 0 <= count < comm.size:
        raise BadInput(
            f"cannot keep {count} of {comm.size} ranks as spares; keep at least 0, and "
            "leave at least 1 to work"
        )
    return Crew(comm, count)


def finish(comm: MPI.Intracomm | Crew, code: int = 0) -> NoReturn:
    """End this process with `code` once all that live have come here; call it last, on all ranks.

    After a failure, leaving MPI the normal way may hang; this never calls MPI_Finalize.
    """
    everyone = comm.everyone if isinstance(comm, Crew) else comm
    everyone.Set_errhandler(MPI.ERRORS_RETURN)
    try:
        if not (isinstance(comm, Crew) and comm.spare):
            agree(everyone, 1)
    except MPI.Exception:
        code = code or 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
