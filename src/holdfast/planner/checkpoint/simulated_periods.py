"""Monte Carlo by the model's own rules, one period at a time.

It keeps an explicit list of the checkpoints that survive, where the chain has states: the two
share nothing but the rules, so each checks the other.
"""

from __future__ import annotations

import math

import numpy as np

from .. import Estimate
from .failure_times import FailureTimes
from .system import Schedule, System, check_drain, level_of


class _Run:
    """One pass over a period; the newest surviving checkpoint is the last of `kept`."""

    def __init__(self, system: System, failures: FailureTimes, kept: list[tuple[int, int]]) -> None:
        self.system = system
        self.failures = failures
        self.kept = kept
        self.time = 0.0

    def survivor(self, need: int) -> tuple[int, int] | None:
        """Forget checkpoints below level `need` until one is left that serves."""
        while self.kept and self.kept[-1][1] < need:
            self.kept.pop()
        return self.kept[-1] if self.kept else None

    def recover(self, need: int) -> int | None:
        """Recover from what survives; return its position, None if this list has nothing left."""
        while (found := self.survivor(need)) is not None:
            position, level = found
            spent, failed = self.failures.within(self.system.recoveries[level - 1])
            self.time += spent
            if not failed:
                return position
            if failed >= level and level < self.system.levels:
                need = max(failed, level + 1)
        return None


def _pass(
    system: System, schedule: Schedule, failures: FailureTimes, *, from_top: bool, draining: int
) -> tuple[float, bool, bool]:
    """Run a period once: time, whether it was finished, whether its start had been drained.

    From the top level it always finishes; from a cached start a top failure ends it.
    """
    top = system.levels
    run = _Run(system, failures, [(0, top if from_top else top - 1)])
    asynchronous = draining >= 0
    drained = from_top or draining == 0
    done = 0
    while done < schedule.segments:
        level = level_of(done + 1, schedule.counts)
        slow = 1.0 if drained else 1 + system.overhead
        cost = system.blocking_cost(level, asynchronous=asynchronous)
        spent, failed = failures.within(slow * schedule.interval + cost)
        run.time += spent
        if failed:
            position = run.recover(failed)
            if position is None:
                return run.time, False, drained
            done = position
        else:
            done += 1
            run.kept.append((done, level))
            drained = drained or done >= draining
    return run.time, True, drained


def _period(system: System, schedule: Schedule, failures: FailureTimes, draining: int) -> float:
    """Time of one period; `draining` is -1 where the top level is written synchronously."""
    if draining < 0:
        return _pass(system, schedule, failures, from_top=True, draining=-1)[0]
    total = 0.0
    while True:
        time, finished, drained = _pass(
            system, schedule, failures, from_top=False, draining=draining
        )
        total += time
        if finished:
            return total
        # This period again if its start is on the shared file system, else the one before it.
        total += failures.until_success(system.recoveries[-1])
        total += _pass(system, schedule, failures, from_top=True, draining=draining)[0]
        if drained:
            return total


def simulate(
    system: System,
    schedule: Schedule,
    *,
    asynchronous: bool,
    periods: int,
    rng: np.random.Generator,
) -> Estimate:
    """Estimate the mean seconds of a period."""
    draining = check_drain(system, schedule) if asynchronous else -1
    failures = FailureTimes(system.rates, rng)
    times = np.array([_period(system, schedule, failures, draining) for _ in range(periods)])
    return Estimate(float(times.mean()), float(times.std(ddof=1)) / math.sqrt(periods))
