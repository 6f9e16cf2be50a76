"""How the ranks of a store begin and end a collective call together.

They *meet* first: everybody says what it is about to do, so that different calls or arguments are
refused on all ranks instead of hanging some. They *conclude* with an agreement that holds even if
ranks die during it: the call has succeeded on all that live, or on none.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, suppress
from types import TracebackType

import numpy as np
from mpi4py import MPI

from .. import mpi
from .._core import xxh3_64
from ..errors import BadInput, Full, HoldfastError, RanksFailed
from .permutation import Ints
from .wire import Wire

#: What the ranks agree on at the end of a call: nobody saw a failure, nobody has an objection.
_NO_FAILURE, _NO_OBJECTION = 1, 2
_DIGEST_BITS = 63
#: How much each rank can say to each other when they meet: more where few meet, so that loads need
#: no second round of messages.
_FEW_RANKS, _WORDS_OF_FEW, _WORDS = 64, 25, 5
_PROBLEM = -1  # never a digest


class Rendezvous:
    """A communicator of a store's own, and the state of the calls made in it."""

    def __init__(self, comm: MPI.Intracomm) -> None:
        self.wire = Wire(comm)
        self._agreed_to_recover = False

    @property
    def comm(self) -> MPI.Intracomm:
        """The communicator."""
        return self.wire.comm

    def guard(self, wake: bool = False) -> AbstractContextManager[None]:
        """Turn failures of ranks that MPI reports inside the block into `RanksFailed`.

        With `wake`, whatever else goes wrong in it makes the others give up the call, too.
        """
        return _Guard(self, wake)

    def words(self, *values: int) -> Ints:
        """Return what to say at a meeting, a row for each rank: `values` to all, and zeros."""
        size = self.comm.size
        room = _WORDS_OF_FEW if size <= _FEW_RANKS else _WORDS
        # The first column is for `meet`.
        words = np.zeros((size, 1 + room), np.int64)[:, 1:]
        if values:
            words[:, : len(values)] = values
        return words

    def meet(
        self, call: str, problem: str | None, words: Ints, cause: Exception | None = None
    ) -> Ints:
        """Exchange a row of `words` with every rank if all make the same `call` and can make it.

        `words` are from the method of that name. Otherwise everybody raises BadInput, with the
        reason: here `problem`, if there is one, with what caused it.
        """
        digest = xxh3_64(call.encode()) >> (64 - _DIGEST_BITS)
        mine = words.base
        assert isinstance(mine, np.ndarray)
        mine[:, 0] = digest if problem is None else _PROBLEM
        with self.guard():
            theirs = self.wire.swap_rows(mine)
            if (theirs[:, 0] == digest).all():
                return theirs[:, 1:]
            said = self.wire.gather_objects((call, problem))
        if problem is not None:
            raise BadInput(problem) from cause
        for rank, (_, reason) in enumerate(said):
            if reason is not None:
                raise BadInput(
                    f"rank {rank} cannot take part, so the call fails on all ranks: {reason}"
                )
        other = next(rank for rank, (made, _) in enumerate(said) if made != call)
        raise BadInput(
            f"ranks disagree: rank {self.comm.rank} calls {call} and rank {other} calls "
            f"{said[other][0]}; all ranks must make the same call with the same arguments"
        )

    def conclude(self, content: bool = True) -> bool:
        """Agree that the call has succeeded; return whether all are `content`.

        Raises RanksFailed, on all ranks, if any knows of a failure.
        """
        mine = 0 if mpi.is_broken(self.comm) else _NO_FAILURE
        flags = mpi.agree(self.comm, mine | (_NO_OBJECTION if content else 0))
        if not flags & _NO_FAILURE:
            self._agreed_to_recover = True
            raise mpi.ranks_failed(self.comm)
        self.wire.release()
        return bool(flags & _NO_OBJECTION)

    def meet_to_recover(self) -> None:
        """Wait until everybody has given up the call that it was in, and its messages are gone."""
        mpi.revoke(self.comm)
        if not self._agreed_to_recover:
            # Takes part in the conclusion that others may be waiting for, and denies it.
            mpi.agree(self.comm, 0)
        self.wire.drain()

    def move_to(self, comm: MPI.Intracomm) -> None:
        """Go on in another communicator; nobody uses the old one any more."""
        self.wire.abandon()
        self.wire = Wire(comm)
        self._agreed_to_recover = False


class _Guard(AbstractContextManager[None]):
    """See `Rendezvous.guard`; entered several times in each call, so kept light."""

    def __init__(self, meeting: Rendezvous, wake: bool) -> None:
        self._meeting = meeting
        self._wake = wake

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            return
        comm = self._meeting.comm
        if isinstance(error, RanksFailed):
            mpi.revoke(comm)
        elif isinstance(error, MPI.Exception) and mpi.is_failure(error, comm):
            raise mpi.ranks_failed(comm) from error
        elif self._wake:
            with suppress(HoldfastError):  # an MPI that cannot wake them
                mpi.revoke(comm)
            if isinstance(error, MemoryError):
                raise Full(
                    "not enough memory for the data from other ranks; call recover() and go on"
                ) from error
