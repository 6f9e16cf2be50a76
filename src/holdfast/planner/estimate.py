"""A number from a simulation, with its standard error."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Estimate:
    """A mean and its standard error."""

    mean: float
    error: float

    def sigmas(self, value: float) -> float:
        """How many standard errors the mean lies above `value`."""
        return (self.mean - value) / self.error
