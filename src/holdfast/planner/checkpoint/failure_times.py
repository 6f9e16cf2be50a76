"""Failures that end an attempt at something that takes a while.

Their chances and mean times for the models; random ones, drawn in batches, for the simulators.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

#: Below any rate anyone has: stands in for "never", so that no formula divides by zero.
NEVER = 1e-300
_BATCH = 4096


def survives(rate: float, length: float) -> float:
    """Probability that no failure comes within `length`."""
    return math.exp(-rate * length)


def mean_time(rate: float, length: float) -> float:
    """Mean time spent in one attempt, whether it succeeds or a failure cuts it short."""
    return -math.expm1(-rate * length) / rate if rate * length > NEVER else length


def fails_with(rates: tuple[float, ...], length: float) -> list[float]:
    """Probability, per level, that the attempt is ended by a failure of that level."""
    total = max(sum(rates), NEVER)
    failed = -math.expm1(-total * length)
    return [rate / total * failed for rate in rates]


def until_success(rate: float, length: float) -> float:
    """Mean time until an attempt that is always repeated has succeeded."""
    if rate * length > 700:  # beyond the range of a double: never, for our purposes
        return math.inf
    return math.expm1(rate * length) / rate if rate * length > NEVER else length


class FailureTimes:
    """A Poisson stream of failures of several levels."""

    def __init__(self, rates: tuple[float, ...], rng: np.random.Generator) -> None:
        self.mean = 1 / max(sum(rates), NEVER)
        self.cumulative = (np.cumsum(rates) * self.mean).tolist()
        self.rng = rng
        self.waits: Iterator[float] = iter(())
        self.picks: Iterator[float] = iter(())

    def within(self, length: float) -> tuple[float, int]:
        """Attempt something of `length`: time spent, and the failure's level or 0."""
        wait = next(self.waits, None)
        if wait is None:
            self.waits = iter((self.rng.exponential(size=_BATCH) * self.mean).tolist())
            wait = next(self.waits)
        if wait >= length:
            return length, 0
        return wait, self._level()

    def _level(self) -> int:
        pick = next(self.picks, None)
        if pick is None:
            self.picks = iter(self.rng.random(_BATCH).tolist())
            pick = next(self.picks)
        return next(
            (i for i, bound in enumerate(self.cumulative, 1) if pick < bound), len(self.cumulative)
        )

    def until_success(self, length: float) -> float:
        """Repeat an attempt of `length` until no failure ends it: time spent."""
        total, failed = self.within(length)
        while failed:
            spent, failed = self.within(length)
            total += spent
        return total
