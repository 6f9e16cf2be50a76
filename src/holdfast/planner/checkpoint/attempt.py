"""One attempt at something that takes a while and that a failure may end: the elements."""

from __future__ import annotations

import math

#: Below any rate anyone has: stands in for "never", so that no formula divides by zero.
NEVER = 1e-300


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
