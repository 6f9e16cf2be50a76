"""The schedule with the highest efficiency: over the interval and the counts of every level.

And what Young and Daly advise, for one level that is written synchronously.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import permutations

import numpy as np

from ...errors import BadInput
from . import blocks, two_level
from .system import Outcome, Schedule, System
from .two_level import Array

#: Most segments of a period that are looked at; beyond, nobody would wait for the next drain.
MOST_SEGMENTS = 100_000
_ROUNDS = 7  # each narrows the interval about tenfold
_STARTS = 3  # the drain makes several local maxima


def best(system: System, *, asynchronous: bool) -> Outcome | None:
    """Return the best schedule for `system`; None where no schedule makes progress."""
    if not system.rates[-1]:
        raise BadInput(
            "no failure ever needs the shared file system (its rate is 0), so the best plan never "
            "writes there; give a rate above 0"
        )
    if system.levels == 2:
        return _best_of_two(system, asynchronous=asynchronous)
    return _best_of_many(system, asynchronous=asynchronous)


def _intervals(system: System) -> tuple[float, float]:
    """Return the shortest and the longest interval worth a look."""
    by_cost = 0.1 * math.sqrt(2 * system.costs[0] / system.rate)
    return max(min(1e-4 / system.rate, by_cost), 1e-8 / system.rate), 20 / system.rate


def _kinks(system: System, low: float, high: float, most: int) -> Array:
    """Return the intervals in [low, high] at which a drain takes one segment less.

    Efficiency jumps there, so the best interval often is one of them.
    """
    if not system.drain:
        return np.empty(0)
    slow, cost = 1 + system.overhead, system.costs[0]
    fewest = max(1, math.ceil(system.drain / (slow * high + cost) - 1e-9))
    largest = math.floor(system.drain / (slow * low + cost) + 1e-9)
    segments = np.arange(fewest, min(largest, fewest + most) + 1)
    intervals = (system.drain / segments - cost) / slow
    return np.asarray(intervals[intervals > 0])


def _best_of_two(system: System, *, asynchronous: bool) -> Outcome | None:
    """Search a grid of intervals and segments, then narrow it around the best few points."""

    def search(intervals: Array, segments: Array, most_kinks: int) -> tuple[Array, Array]:
        if asynchronous:
            kinks = _kinks(system, intervals[0], intervals[-1], most_kinks)
            intervals = np.union1d(intervals, kinks)
        t, n = intervals[None, :], segments[:, None]
        return intervals, t * n / two_level.expected(system, t, n, asynchronous=asynchronous)

    low, high = _intervals(system)
    grid = np.geomspace(low, high, 20 * math.ceil(math.log10(high / low)))
    numbers = np.unique(np.geomspace(1, MOST_SEGMENTS, 60).round())
    intervals, table = search(grid, numbers, 64)
    found: list[tuple[float, float, float]] = []
    for row in np.argsort(table.max(axis=1))[::-1][:_STARTS]:
        t = intervals[table[row].argmax()]
        around_t = grid[1] / grid[0]
        around_n = numbers[max(row - 1, 0)], numbers[min(row + 1, len(numbers) - 1)]
        for _ in range(_ROUNDS):
            near = np.unique(np.linspace(*around_n, 21).round())
            fine = np.geomspace(t / around_t, t * around_t, 17)
            fine, values = search(fine, near, 16)
            i, j = np.unravel_index(values.argmax(), values.shape)
            t, n = fine[j], near[i]
            found.append((values[i, j], t, n))
            around_t = around_t**0.25
            width = max(2.0, (around_n[1] - around_n[0]) / 8)
            around_n = (max(1.0, n - width), n + width)
    efficiency, t, n = max(found)
    if not efficiency:
        return None
    return two_level.evaluate(system, Schedule(float(t), (int(n) - 1,)), asynchronous=asynchronous)


@dataclass
class _ByCounts:
    """Best outcomes by counts, each found once; intervals are within a factor of `precision`."""

    system: System
    asynchronous: bool
    precision: float
    known: dict[tuple[int, ...], Outcome | None] = field(default_factory=dict)

    def best(self, counts: tuple[int, ...], near: float | None = None) -> Outcome | None:
        """Return the best interval for `counts`, looked for around `near` if it is known."""
        if counts not in self.known:
            self.known[counts] = self.search(counts, near)
        return self.known[counts]

    def search(self, counts: tuple[int, ...], near: float | None) -> Outcome | None:
        low, high = _intervals(self.system)
        if near is not None:
            low, high = max(low, near / 4), min(high, near * 4)
        segments = math.prod(count + 1 for count in counts)
        if self.asynchronous:
            slow, cost = 1 + self.system.overhead, self.system.costs[0]
            low = max(low, (self.system.drain / segments - cost) / slow)
        if segments > MOST_SEGMENTS or low >= high:
            return None
        step = max(1.5, (high / low) ** (1 / 24))
        outcome = self.pick(counts, _ladder(low, high, step))
        while outcome is not None and step > self.precision:
            t = outcome.schedule.interval
            ends = max(low, t / step), min(high, t * step)
            kinks = _kinks(self.system, *ends, 6).tolist() if self.asynchronous else []
            step = step**0.4
            points = [t, *kinks, *_ladder(*ends, step)]
            outcome = self.pick(counts, [point for point in points if point >= low])
        return outcome

    def pick(self, counts: tuple[int, ...], intervals: list[float]) -> Outcome | None:
        outcomes = []
        for interval in intervals:
            schedule = Schedule(interval, counts)
            draining = self.system.draining_segments(interval) if self.asynchronous else 0
            if draining <= schedule.segments:
                outcomes.append(
                    blocks.evaluate(self.system, schedule, asynchronous=self.asynchronous)
                )
        return max(outcomes, key=lambda outcome: outcome.efficiency, default=None)

    def climb(self, counts: tuple[int, ...]) -> Outcome | None:
        """Go from `counts` to better neighbours until there is none."""
        here = self.best(counts)
        improved = True
        while improved:
            improved = False
            for near in _neighbours(counts):
                there = self.best(near, here.schedule.interval if here else None)
                if there and (here is None or there.efficiency > here.efficiency * (1 + 1e-9)):
                    here, counts, improved = there, near, True
                    break
        return here


def _ladder(low: float, high: float, step: float) -> list[float]:
    rungs = max(1, math.ceil(math.log(high / low) / math.log(step))) if high > low else 1
    return [low * (high / low) ** (i / rungs) for i in range(rungs + 1)]


_MOVES = {"double": lambda c: 2 * c + 1, "halve": lambda c: (c - 1) // 2,
          "more": lambda c: c + 1, "fewer": lambda c: c - 1}  # fmt: skip


def _neighbours(counts: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Yield counts one step away, long steps first; a level may drop out (count 0)."""
    levels = range(len(counts))
    steps = [[(i, move)] for move in _MOVES for i in levels]
    for up, down in (("double", "halve"), ("more", "fewer")):  # exchange between two levels
        steps += [[(i, up), (j, down)] for i, j in permutations(levels, 2)]
    for step in steps:
        new = list(counts)
        for index, move in step:
            new[index] = _MOVES[move](new[index])
        if min(new) >= 0:
            yield tuple(new)


def _best_of_many(system: System, *, asynchronous: bool) -> Outcome | None:
    """Climb from several counts, roughly at first, then with precision from the best found."""
    rough = _ByCounts(system, asynchronous, precision=1.05)
    starts = [rough.climb((start,) * (system.levels - 1)) for start in (0, 3, 15)]
    found = max(filter(None, starts), key=lambda outcome: outcome.efficiency, default=None)
    if found is None or not found.efficiency:
        return None
    return _ByCounts(system, asynchronous, precision=1.0005).climb(found.schedule.counts)


def young(cost: float, rate: float) -> float:
    """Young's interval (1974): sqrt(2 * cost * MTBF)."""
    return math.sqrt(2 * cost / rate)


def daly(cost: float, rate: float) -> float:
    """Daly's higher-order interval (2006); the MTBF itself where a checkpoint takes longer."""
    if cost * rate >= 2:
        return 1 / rate
    ratio = cost * rate / 2
    return math.sqrt(2 * cost / rate) * (1 + math.sqrt(ratio) / 3 + ratio / 9) - cost
