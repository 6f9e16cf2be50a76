"""Taking turns, and medians: how the benchmarks compare two things on a machine that is not quiet.

Whatever disturbs the machine for longer than a turn disturbs both sides of a ratio, and whatever
disturbs it for less than half of the rounds is not seen by a median.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import median
from time import perf_counter
from typing import TypeVar

T = TypeVar("T")

ROUNDS = 9


class Samples(dict[str, list[float]]):
    """Name of what was measured -> one number for each round."""

    def middle(self, name: str) -> float:
        """Return the median of what `name` gave."""
        return median(self[name])

    def ratio(self, name: str, to: str) -> float:
        """Return the median of `name` divided by `to`, taken within each round."""
        return median(a / b for a, b in zip(self[name], self[to], strict=True))


def interleave(contestants: Mapping[str, Callable[[], float]], rounds: int = ROUNDS) -> Samples:
    """Let the contestants take turns for some rounds; every other round goes backwards."""
    samples = Samples({name: [] for name in contestants})
    for turn in range(rounds):
        names: Sequence[str] = list(contestants)
        for name in names if turn % 2 == 0 else reversed(names):
            samples[name].append(contestants[name]())
    return samples


def median_time(
    action: Callable[[], T], milliseconds: int, after: Callable[[T], object] | None = None
) -> float:
    """Repeat `action` for some time; return the median of its seconds, without those of `after`."""
    seconds: list[float] = []
    end = perf_counter() + milliseconds / 1000
    while not seconds or perf_counter() < end:
        before = perf_counter()
        result = action()
        seconds.append(perf_counter() - before)
        if after is not None:
            after(result)
    return median(seconds)
