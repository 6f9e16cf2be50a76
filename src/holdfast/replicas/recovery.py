"""After a failure: those who live find one another again, spares take the places of the dead."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from mpi4py import MPI

from .. import mpi
from ..errors import HoldfastError
from .layout import contains
from .permutation import Ints
from .wire import Wire


@dataclass(frozen=True)
class Recovery:
    """What `Replicas.recover` found.

    `ranks` died, as they were numbered before; `joined` are spares that took places, as all are
    numbered now. `versions` has the version of each data set that stands, `lost` the blocks of
    which no copy is left, as (first, count); data sets that lost nothing are not in it.
    """

    ranks: tuple[int, ...]
    joined: tuple[int, ...]
    versions: dict[str, int]
    lost: dict[str, list[tuple[int, int]]]


@dataclass(frozen=True, kw_only=True)
class Regrouped:
    """Communicators after a failure, and who is where.

    `comm` is for those at work (None on a spare that still waits); `places` and `labels` give the
    place and the host of each of its ranks; `joined` are its ranks that were spares; `state` is
    what those were told.
    """

    everyone: MPI.Intracomm
    comm: MPI.Intracomm | None
    places: Ints
    labels: Ints
    joined: tuple[int, ...]
    state: Any


def regroup(
    everyone: MPI.Intracomm, place: int, label: int, lost_before: Ints, describe: Callable[[], Any]
) -> Regrouped:
    """Shrink `everyone` to those who live, again if ranks die meanwhile, and assign places.

    `place` is -1 on spares. `lost_before` (ignored on spares) are all places that were taken when
    the failure came; `describe` tells newcomers what they need to know.
    """
    wires = []  # those of failed attempts must stay until there is a good one
    while True:
        everyone = _shrink(everyone)
        wires.append(Wire(everyone))
        regrouped = None
        try:
            regrouped = _assign(wires[-1], place, label, lost_before, describe)
        except MPI.Exception as error:
            if not mpi.is_failure(error, everyone):
                raise
            mpi.revoke(everyone)
        if mpi.agree(everyone, int(regrouped is not None)) == 1 and regrouped is not None:
            for wire in wires:
                wire.abandon()
            return regrouped
        wires[-1].drain()


def _shrink(comm: MPI.Intracomm) -> MPI.Intracomm:
    try:
        return mpi.settle(comm.Shrink())
    except (NotImplementedError, MPI.Exception) as error:
        raise HoldfastError(mpi.NO_ULFM) from error


def _assign(
    wire: Wire, place: int, label: int, taken: Ints, describe: Callable[[], Any]
) -> Regrouped:
    everyone = wire.comm
    table = wire.swap_rows(np.tile(np.array([place, label]), (everyone.size, 1)))
    at_work = np.flatnonzero(table[:, 0] >= 0)
    spares = np.flatnonzero(table[:, 0] < 0)
    if not len(spares):
        return Regrouped(
            everyone=everyone,
            comm=everyone,
            places=table[:, 0],
            labels=table[:, 1],
            joined=(),
            state=None,
        )
    if not len(at_work):
        nobody = np.empty(0, np.int64)
        return Regrouped(
            everyone=everyone, comm=None, places=nobody, labels=nobody, joined=(), state=None
        )
    speaker = int(at_work[0])
    said = (taken, describe()) if everyone.rank == speaker else None
    taken, state = wire.gather_objects(said)[speaker]
    vacant = taken[~contains(np.sort(table[at_work, 0]), taken)]
    drafted = spares[: len(vacant)]
    table[drafted, 0] = vacant[: len(drafted)]
    mine = int(table[everyone.rank, 0])
    comm = mpi.settle(everyone.Split(int(mine < 0), mine if mine >= 0 else everyone.rank))
    working = np.flatnonzero(table[:, 0] >= 0)
    working = working[np.argsort(table[working, 0])]
    joined = tuple(np.flatnonzero(contains(drafted, working)).tolist())
    return Regrouped(
        everyone=everyone,
        comm=comm if mine >= 0 else None,
        places=table[working, 0],
        labels=table[working, 1],
        joined=joined,
        state=state,
    )
