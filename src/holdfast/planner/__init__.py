"""Models and simulators of what failures cost: no I/O, no cluster; `holdfast plan` asks them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Estimate:
    """What a simulator found: a mean and its standard error."""

    mean: float
    error: float

    def sigmas(self, value: float) -> float:
        """How many standard errors the mean lies above `value`."""
        return (self.mean - value) / self.error
