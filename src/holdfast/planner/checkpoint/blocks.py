"""The chain folded up: nested blocks, each left once, so that repeats cost nothing.

This is the X, Y, Z form of Moody et al. (SC'10), extended by a drain that ends in mid-period: a
block can be run up to a segment (`head`) or from one (`tail`). One evaluation takes work that
grows with the number of levels, not of segments; `chain` gives the same numbers and is the check.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from typing import NamedTuple

from .failure_times import fails_with, mean_time, survives, until_success
from .system import Outcome, Schedule, System, check_drain


class _Passage(NamedTuple):
    """A stretch left once: mean time in it, chance to pass it, chance to leave needing level i."""

    time: float
    passed: float
    exits: list[float]


def _then(first: _Passage, second: _Passage) -> _Passage:
    return _Passage(
        first.time + first.passed * second.time,
        first.passed * second.passed,
        [a + first.passed * b for a, b in zip(first.exits, second.exits, strict=True)],
    )


def _times(block: _Passage, count: int) -> _Passage:
    """Run `block` `count` times in a row: a geometric series."""
    failed = sum(block.exits)
    if failed < 0.5:
        log_passed = count * math.log1p(-failed)
    else:
        log_passed = count * math.log(block.passed) if block.passed and count else -math.inf
    passed = math.exp(log_passed) if count else 1.0
    mean = -math.expm1(log_passed) / failed if failed and count else float(count)
    return _Passage(block.time * mean, passed, [mean * exit_ for exit_ in block.exits])


def _once(method: Callable[..., _Passage]) -> Callable[..., _Passage]:
    """Compute each block of a period once: nested blocks ask for the same ones again."""

    @wraps(method)
    def known(self: _Period, *key: int) -> _Passage:
        found = self.known.get((method, *key))
        if found is None:
            found = self.known[(method, *key)] = method(self, *key)
        return found

    return known


class _Period:
    """The blocks of one period, each second of computation stretched by `slowdown`."""

    def __init__(
        self, system: System, schedule: Schedule, *, asynchronous: bool, slowdown: float = 0.0
    ) -> None:
        self.system = system
        self.counts = schedule.counts
        self.compute = (1 + slowdown) * schedule.interval
        self.asynchronous = asynchronous
        self.known: dict[object, _Passage] = {}
        self.lengths = [1]
        for count in self.counts:
            self.lengths.append(self.lengths[-1] * (count + 1))

    def segment(self, ends_with: int) -> _Passage:
        length = self.compute + self.system.blocking_cost(ends_with, asynchronous=self.asynchronous)
        rate = self.system.rate
        exits = fails_with(self.system.rates, length)
        return _Passage(mean_time(rate, length), survives(rate, length), exits)

    @_once
    def recovery(self, level: int) -> _Passage:
        """Recover from a checkpoint of `level`, with its retries; exits need a higher one."""
        length, top = self.system.recoveries[level - 1], self.system.levels
        if level == top:
            return _Passage(until_success(self.system.rate, length), 1.0, [0.0] * top)
        fails = fails_with(self.system.rates, length)
        exits = [0.0] * level + fails[level:]
        exits[level] += fails[level - 1]
        passed = survives(self.system.rate, length)
        ends = passed + sum(exits)
        time = mean_time(self.system.rate, length)
        return _Passage(time / ends, passed / ends, [exit_ / ends for exit_ in exits])

    def protect(self, body: _Passage, level: int) -> _Passage:
        """Repeat `body` from its start after every failure that its `level` checkpoint covers."""
        recovery = self.recovery(level)
        covered = sum(body.exits[:level])
        exits = [0.0] * level + [
            a + covered * b for a, b in zip(body.exits[level:], recovery.exits[level:], strict=True)
        ]
        ends = body.passed + sum(exits)
        if not ends:
            return _Passage(math.inf, 0.0, [0.0] * self.system.levels)
        time = (body.time + covered * recovery.time) / ends
        return _Passage(time, body.passed / ends, [exit_ / ends for exit_ in exits])

    def resume(self, tail: _Passage, level: int, whole: _Passage) -> _Passage:
        """Run `tail`; after a failure that `level` covers, recover and run the `whole` block."""
        covered = sum(tail.exits[:level])
        again = _then(self.recovery(level), whole)
        return _Passage(
            tail.time + covered * again.time,
            tail.passed + covered * again.passed,
            [0.0] * level
            + [
                a + covered * b
                for a, b in zip(tail.exits[level:], again.exits[level:], strict=True)
            ],
        )

    @_once
    def body(self, level: int, ends_with: int) -> _Passage:
        """Run all segments of a block of `level`, its own start not yet protected (Y)."""
        if level == 1:
            return self.segment(ends_with)
        return self.children(level, ends_with, self.counts[level - 2] + 1)

    @_once
    def block(self, level: int, ends_with: int) -> _Passage:
        """Run a block whose start is a checkpoint of `level` (X)."""
        return self.protect(self.body(level, ends_with), level)

    def children(self, level: int, ends_with: int, number: int, first: int = 0) -> _Passage:
        """Run children `first` to `number` of a block; the first of all has no own recovery."""
        last = self.counts[level - 2]
        passage = _Passage(0.0, 1.0, [0.0] * self.system.levels)
        if first == 0 and number:
            passage = self.body(level - 1, ends_with if last == 0 else level - 1)
            first = 1
        inner = min(number, last) - first
        if inner > 0:
            passage = _then(passage, _times(self.block(level - 1, level - 1), inner))
        if number > last >= first:
            passage = _then(passage, self.block(level - 1, ends_with))
        return passage

    def head(self, level: int, ends_with: int, segments: int) -> _Passage:
        """Run the first `segments` of a block."""
        if segments == self.lengths[level - 1]:
            return self.body(level, ends_with)
        child, rest = divmod(segments, self.lengths[level - 2])
        passage = self.children(level, ends_with, child)
        if rest:
            ends = ends_with if child == self.counts[level - 2] else level - 1
            part = self.head(level - 1, ends, rest)
            passage = _then(passage, self.protect(part, level - 1) if child else part)
        return passage

    def tail(self, level: int, ends_with: int, segments: int) -> _Passage:
        """Run what a block has left after its first `segments` (of which there is at least 1)."""
        child, rest = divmod(segments, self.lengths[level - 2])
        number = self.counts[level - 2] + 1
        if not rest:
            return self.children(level, ends_with, number, child)
        ends = ends_with if child == number - 1 else level - 1
        part = self.tail(level - 1, ends, rest)
        if child:
            part = self.resume(part, level - 1, self.block(level - 1, ends))
        return _then(part, self.children(level, ends_with, number, child + 1))


def evaluate(system: System, schedule: Schedule, *, asynchronous: bool) -> Outcome:
    """Judge one schedule of any number of levels."""
    top = system.levels
    plain = _Period(system, schedule, asynchronous=asynchronous)
    again = plain.block(top, top).time
    if not asynchronous:
        return Outcome(schedule, again, 0)
    draining = check_drain(system, schedule)
    slowed = _Period(system, schedule, asynchronous=True, slowdown=system.overhead)
    again += until_success(system.rate, system.recoveries[-1])
    whole = plain.protect(plain.body(top, top), top - 1)
    in_flight = _Passage(0.0, 1.0, [0.0] * top)
    drained = whole
    if draining:
        in_flight = slowed.protect(slowed.head(top, top, draining), top - 1)
        drained = _Passage(0.0, 1.0, [0.0] * top)
        if draining < schedule.segments:
            drained = plain.resume(plain.tail(top, top, draining), top - 1, whole)
    if not in_flight.passed:
        return Outcome(schedule, math.inf, draining)
    rest = drained.time + drained.exits[-1] * again
    time = in_flight.time + in_flight.exits[-1] * again + in_flight.passed * rest
    return Outcome(schedule, time / in_flight.passed, draining)
