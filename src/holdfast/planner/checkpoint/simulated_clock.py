"""Monte Carlo with a wall clock: drains progress second by second, not segment by segment.

It shows what the Markov model hides: a drain that a failure interrupts either resumes where it
was or starts again, and a drain that is late pushes the next top checkpoint to a later segment.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ...errors import BadInput
from .. import Estimate
from .failure_times import FailureTimes
from .system import Schedule, System


@dataclass(kw_only=True)
class _Job:
    """Progress in segments; None where there is no such copy or no drain."""

    done: int = 0
    cached: int | None = 0
    stored: int = 0
    drain_from: int | None = None
    drain_left: float = 0.0
    last_drain: int = 0
    time: float = 0.0

    def drain(self, seconds: float) -> None:
        """Let the drain in flight run for `seconds`."""
        if self.drain_from is None:
            return
        self.drain_left -= seconds
        if self.drain_left <= 1e-9:
            self.stored, self.drain_from = self.drain_from, None


class _Clock:
    def __init__(
        self, system: System, schedule: Schedule, failures: FailureTimes, *, restart: bool
    ) -> None:
        self.system = system
        self.schedule = schedule
        self.failures = failures
        self.restart = restart

    def segment(self, job: _Job) -> int:
        """Attempt one segment; return the level of the failure that ended it, or 0."""
        compute = self.schedule.interval
        if job.drain_from is not None:
            slow = 1 + self.system.overhead
            slowed = min(slow * compute, job.drain_left)
            compute = slowed + compute - slowed / slow
        spent, failed = self.failures.within(compute + self.system.costs[0])
        job.time += spent
        job.drain(spent)
        if failed:
            return failed
        job.done += 1
        job.cached = job.done
        if job.drain_from is None and job.done - job.last_drain >= self.schedule.segments:
            job.drain_from = job.last_drain = job.done
            job.drain_left = self.system.drain
        return 0

    def recover(self, job: _Job, failed: int) -> None:
        if failed == 1 and job.cached is not None:
            if self.restart:
                job.drain_left = self.system.drain
            spent, failed = self.failures.within(self.system.recoveries[0])
            job.time += spent
            if not failed:
                job.done = job.cached
                return
        job.time += self.failures.until_success(self.system.recoveries[1])
        job.done = job.last_drain = job.stored
        job.cached = job.drain_from = None


def simulate(
    system: System,
    schedule: Schedule,
    *,
    restart: bool,
    rng: np.random.Generator,
    runs: int = 20,
    periods: int = 200,
) -> Estimate:
    """Estimate the efficiency of an asynchronous two-level schedule.

    With `restart` a drain begins anew after each failure that its data survived.
    """
    if system.levels != 2:
        raise BadInput(f"the wall-clock simulation supports two levels, not {system.levels}")
    goal = periods * schedule.segments
    clock = _Clock(system, schedule, FailureTimes(system.rates, rng), restart=restart)
    efficiencies = []
    for _ in range(runs):
        job = _Job()
        while job.done < goal:
            failed = clock.segment(job)
            if failed:
                clock.recover(job, failed)
        efficiencies.append(goal * schedule.interval / job.time)
    error = float(np.std(efficiencies, ddof=1)) / math.sqrt(runs)
    return Estimate(float(np.mean(efficiencies)), error)
