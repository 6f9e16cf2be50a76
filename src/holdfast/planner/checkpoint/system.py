"""What the checkpoint model is told: levels with costs and rates, and a schedule to judge."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...errors import BadInput

#: Rounding must not turn a drain that ends exactly with a segment into one that needs another.
_CEILING_SLACK = 1e-9


@dataclass(frozen=True)
class System:
    """Levels from the fastest to the shared file system; times in seconds, rates in 1/s.

    `rates[i]` counts failures whose lowest sufficient level is i; `drain` is how long an
    asynchronous checkpoint travels to the top level, `overhead` by how much it slows computation.
    """

    costs: tuple[float, ...]
    recoveries: tuple[float, ...]
    rates: tuple[float, ...]
    drain: float
    overhead: float = 0.0

    def __post_init__(self) -> None:
        levels = len(self.costs)
        if levels < 2 or not levels == len(self.recoveries) == len(self.rates):
            raise BadInput(
                f"{levels} checkpoint costs, {len(self.recoveries)} recovery costs and "
                f"{len(self.rates)} failure rates; give each for at least two levels"
            )
        for what, values in (
            ("checkpoint cost", self.costs),
            ("recovery cost", self.recoveries),
            ("failure rate", self.rates),
            ("drain time", (self.drain,)),
            ("overhead factor", (self.overhead,)),
        ):
            for value in values:
                if not (math.isfinite(value) and value >= 0):
                    raise BadInput(
                        f"the {what} is {value:g}; it must be a number that is not negative"
                    )

    @property
    def levels(self) -> int:
        """How many levels there are; the last is the shared file system."""
        return len(self.costs)

    @property
    def rate(self) -> float:
        """Failures of any level per second."""
        return sum(self.rates)

    def scaled(self, failures: float = 1.0, shared: float = 1.0) -> System:
        """Return the system with `failures` times the rates and `shared` times the top's cost."""
        return replace(
            self,
            costs=(*self.costs[:-1], self.costs[-1] * shared),
            recoveries=(*self.recoveries[:-1], self.recoveries[-1] * shared),
            rates=tuple(rate * failures for rate in self.rates),
            drain=self.drain * shared,
        )

    def blocking_cost(self, level: int, *, asynchronous: bool) -> float:
        """How long a checkpoint of `level` (from 1) stops the program.

        An asynchronous top checkpoint is written to the level below and drained from there.
        """
        if asynchronous and level == self.levels:
            level -= 1
        return self.costs[level - 1]

    def draining_segments(self, interval: float) -> int:
        """In how many segments after a top checkpoint its drain is still in flight."""
        length = (1 + self.overhead) * interval + self.costs[0]
        return math.ceil(self.drain / length - _CEILING_SLACK) if self.drain else 0


@dataclass(frozen=True)
class Schedule:
    """Compute for `interval` seconds, checkpoint, repeat.

    `counts[k]` checkpoints of level k+1 lie between two of level k+2.
    """

    interval: float
    counts: tuple[int, ...]

    def __post_init__(self) -> None:
        if not (math.isfinite(self.interval) and self.interval > 0):
            raise BadInput(f"the interval is {self.interval:g} s; it must be longer than 0")
        if not self.counts or min(self.counts) < 0:
            raise BadInput(f"checkpoint counts {list(self.counts)}; each must be at least 0")

    @property
    def segments(self) -> int:
        """Segments of computation from one top checkpoint to the next."""
        return math.prod(count + 1 for count in self.counts)


@dataclass(frozen=True)
class Outcome:
    """What the model says of a schedule: mean seconds per period, useful share of the time."""

    schedule: Schedule
    expected: float
    draining: int

    @property
    def efficiency(self) -> float:
        """Useful time by expected time."""
        return self.schedule.segments * self.schedule.interval / self.expected


def level_of(position: int, counts: Sequence[int]) -> int:
    """Level (from 1) of the checkpoint that ends segment `position` (from 1) of a period."""
    level = 1
    for count in counts:
        if position % (count + 1):
            break
        position //= count + 1
        level += 1
    return level


def check_drain(system: System, schedule: Schedule) -> int:
    """Return the segments with a drain in flight; refuse a drain that outlasts its period."""
    draining = system.draining_segments(schedule.interval)
    if draining > schedule.segments:
        raise BadInput(
            f"a drain of {system.drain:.4g} s outlasts its period ({schedule.segments} x "
            f"{schedule.interval:.4g} s of computation), and only one drain runs at a time; take "
            f"a longer interval or at least {draining} segments"
        )
    return draining
