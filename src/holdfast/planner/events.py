"""What happened to a job, as events; and the checkpoint model's inputs, estimated from them.

The events are the lines of `events.jsonl` (docs/reference/plan.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec
import numpy as np

from ..errors import BadInput
from .checkpoint.system import System
from .rates import Mean, Rate, Shape, mean, poisson_rate, weibull_shape


class LoggedEvent(msgspec.Struct, frozen=True, tag_field="event", forbid_unknown_fields=True):
    """Something that happened at `time` (seconds, any epoch)."""

    time: float


class StartEvent(LoggedEvent, frozen=True, tag="start"):
    """A run begins; failures are watched from here."""

    nodes: int | None = None


class EndEvent(LoggedEvent, frozen=True, tag="end"):
    """The run ends, or the watch does: no failure."""


class CheckpointEvent(LoggedEvent, frozen=True, tag="checkpoint"):
    """A checkpoint of `level` was written; it stopped the program for `seconds`."""

    level: int
    seconds: float
    bytes: int | None = None


class DrainEvent(LoggedEvent, frozen=True, tag="drain"):
    """A drain to the top level ended; if not `complete`, a failure cut it off."""

    seconds: float
    bytes: int | None = None
    complete: bool = True


class FailureEvent(LoggedEvent, frozen=True, tag="failure"):
    """A failure whose lowest sufficient checkpoint is of `level`."""

    level: int


class RecoveryEvent(LoggedEvent, frozen=True, tag="recovery"):
    """The program was brought back from a checkpoint of `level` in `seconds`."""

    level: int
    seconds: float


class SegmentEvent(LoggedEvent, frozen=True, tag="segment"):
    """`work` (steps, iterations) was computed in `seconds`, with a drain in flight or not."""

    seconds: float
    draining: bool
    work: float = 1.0


AnyEvent = (
    StartEvent
    | EndEvent
    | CheckpointEvent
    | DrainEvent
    | FailureEvent
    | RecoveryEvent
    | SegmentEvent
)


@dataclass(frozen=True, kw_only=True)
class Fit:
    """Estimates from a log; lists have an entry per level, None where nothing was measured."""

    runs: int
    watched: float
    rates: list[Rate]
    costs: list[Mean | None]
    recoveries: list[Mean | None]
    drain: Mean | None
    overhead: float
    shape: Shape | None
    notes: list[str] = field(default_factory=list)

    def system(self, rate: str = "plan") -> System:
        """Return the model's inputs; `rate` is plan, low or high."""
        costs = list(self.costs)
        top = self.drain if costs[-1] is None else costs[-1]
        if top is None or None in costs[:-1]:
            missing = "drain or top-level" if top is None else f"level-{costs.index(None) + 1}"
            raise BadInput(f"the log has no measured {missing} checkpoint; let the job write one")
        known = [cost.estimate for cost in costs[:-1] if cost] + [top.estimate]
        recoveries = [
            known[i] if measured is None else measured.estimate
            for i, measured in enumerate(self.recoveries)
        ]
        return System(
            tuple(known),
            tuple(recoveries),
            tuple(getattr(level, rate) for level in self.rates),
            self.drain.estimate if self.drain else top.estimate,
            self.overhead,
        )


def fit(events: Iterable[AnyEvent]) -> Fit:
    """Estimate rates, costs, drain time and overhead."""
    log = sorted(events, key=lambda event: event.time)
    levels = max(
        (e.level for e in log if isinstance(e, CheckpointEvent | FailureEvent | RecoveryEvent)),
        default=0,
    )
    if any(isinstance(e, DrainEvent) for e in log):
        levels = max(levels, 2)
    least = min(
        (e.level for e in log if isinstance(e, CheckpointEvent | FailureEvent | RecoveryEvent)),
        default=1,
    )
    if levels < 2 or least < 1:
        raise BadInput("the log has fewer than two levels, or a level below 1; see the format")
    runs, gaps, censored = _runs(log)
    watched = sum(end - start for start, end in runs)
    notes: list[str] = []
    rates = [
        poisson_rate(sum(isinstance(e, FailureEvent) and e.level == level for e in log), watched)
        for level in range(1, levels + 1)
    ]
    for level, rate in enumerate(rates, 1):
        if not rate.count:
            notes.append(
                f"no level-{level} failure was seen in {watched / 3600:.3g} h; planned with the "
                f"rate at which that is as likely as not"
            )
    costs = _by_level(log, CheckpointEvent, levels)
    recoveries = _by_level(log, RecoveryEvent, levels)
    for level, measured in enumerate(recoveries, 1):
        if measured is None:
            notes.append(f"no level-{level} recovery was seen; assumed to cost as much as writing")
    shape = weibull_shape(gaps, censored)
    if shape and not shape.poisson:
        bursts = "in bursts" if shape.estimate < 1 else "more evenly than by chance"
        notes.append(
            f"failures came {bursts} (Weibull shape {shape.estimate:.2f}, between {shape.low:.2f} "
            f"and {shape.high:.2f}); the model assumes independent ones (shape 1)"
        )
    drain = _drain([e for e in log if isinstance(e, DrainEvent)], notes)
    return Fit(
        runs=len(runs),
        watched=watched,
        rates=rates,
        costs=costs,
        recoveries=recoveries,
        drain=drain,
        overhead=_overhead(log, notes),
        shape=shape,
        notes=notes,
    )


def _runs(log: list[AnyEvent]) -> tuple[list[tuple[float, float]], list[float], list[float]]:
    """Return runs as (start, end), times that ended in a failure, times that were cut off."""
    runs, gaps, censored = [], [], []
    start: float | None = None
    last = 0.0
    for event in log:
        if isinstance(event, StartEvent):
            if start is not None:
                raise BadInput(f"a run starts at {event.time:g} before the previous one ended")
            start = last = event.time
        elif start is None:
            raise BadInput(f"the log has an event at {event.time:g} outside any run; add a start")
        elif isinstance(event, FailureEvent):
            gaps.append(event.time - last)
            last = event.time
        elif isinstance(event, EndEvent):
            censored.append(event.time - last)
            runs.append((start, event.time))
            start = None
    if start is not None:  # the log is cut off: so is the watch
        censored.append(log[-1].time - last)
        runs.append((start, log[-1].time))
    return runs, gaps, censored


def _by_level(
    log: list[AnyEvent], kind: type[CheckpointEvent] | type[RecoveryEvent], levels: int
) -> list[Mean | None]:
    seconds: list[list[float]] = [[] for _ in range(levels)]
    for event in log:
        if isinstance(event, kind):
            seconds[event.level - 1].append(event.seconds)
    return [mean(values) if values else None for values in seconds]


def _drain(drains: list[DrainEvent], notes: list[str]) -> Mean | None:
    """Drains that were cut off still say how fast bytes moved; without bytes they say nothing."""
    whole = [drain for drain in drains if drain.complete]
    cut = len(drains) - len(whole)
    if not whole:
        return None
    if not cut:
        return mean([drain.seconds for drain in whole])
    if any(drain.bytes is None for drain in drains):
        notes.append(
            f"{cut} drains were cut off and have no size; long drains are cut off more often, so "
            f"the mean of the others is too short"
        )
        return mean([drain.seconds for drain in whole])
    size = float(np.mean([drain.bytes for drain in whole]))
    return mean([size * drain.seconds / drain.bytes for drain in drains if drain.bytes])


def _overhead(log: list[AnyEvent], notes: list[str]) -> float:
    """By how much a unit of work takes longer while a drain is in flight."""
    per_work: dict[bool, list[float]] = {True: [], False: []}
    for event in log:
        if isinstance(event, SegmentEvent) and event.work > 0:
            per_work[event.draining].append(event.seconds / event.work)
    if not per_work[True] or not per_work[False]:
        notes.append("no segments with and without a drain were measured; assumed no overhead")
        return 0.0
    ratio = float(np.mean(per_work[True]) / np.mean(per_work[False])) - 1
    return ratio if math.isfinite(ratio) and ratio > 0 else 0.0
