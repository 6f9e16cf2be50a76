"""Random failures for the simulators, drawn in batches."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .attempt import NEVER

_BATCH = 4096


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
