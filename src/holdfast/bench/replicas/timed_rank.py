"""Times of calls that several ranks make together.

Every rank stays on one core. What is compared takes turns, and a turn lasts from the first rank's
start to the last rank's end: where ranks share a core, one that waits for it while others copy
would otherwise count as if it had not been there.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from mpi4py import MPI

from ..measure import Samples, interleave


class TimedCall(NamedTuple):
    """`call` is told the number of its turn, and is timed; before that, `prepare` is not."""

    call: Callable[[int], Any]
    prepare: Callable[[], Any] = lambda: None


def pin(rank: int) -> None:
    """Keep this process on the core of `rank`; ranks are dealt out over all that there are."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[rank % len(cores)]})


def once(comm: MPI.Intracomm, call: Callable[[], Any]) -> float:
    """Return the seconds from the first rank's start to the last rank's end."""
    comm.Barrier()
    start = time.perf_counter()
    call()
    # The clock is that of the machine, and the ranks are all on one.
    ends = np.array([-start, time.perf_counter()])
    comm.Allreduce(MPI.IN_PLACE, ends, MPI.MAX)
    return float(ends.sum())


def turns(comm: MPI.Intracomm, contestants: dict[str, TimedCall], rounds: int) -> Samples:
    """Let the contestants take turns; the first round is not counted."""
    numbers = dict.fromkeys(contestants, 0)

    def turn(name: str) -> float:
        call, prepare = contestants[name]
        prepare()
        number = numbers[name]
        numbers[name] += 1
        return once(comm, partial(call, number))

    samples = interleave({name: partial(turn, name) for name in contestants}, rounds + 1)
    return Samples({name: times[1:] for name, times in samples.items()})
