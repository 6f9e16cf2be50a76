"""The closed form for two levels: constant work per evaluation, on whole arrays at once.

Docs: models/checkpoint.md. Every difference 1 - S of nearly equal numbers is written as a sum of
positive terms, so that rates near zero lose no digits.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from .failure_times import NEVER, until_success
from .system import Outcome, Schedule, System, check_drain

Array: TypeAlias = npt.NDArray[np.float64]

#: A period whose chance to succeed is smaller than this counts as never ending (natural log).
_HOPELESS = np.log(1e-280)


class _Block(NamedTuple):
    """Compute states that a first-level recovery repeats: mean time, failure and log success."""

    time: Array
    failed: Array
    log_success: Array

    def repeat(self, count: Array) -> tuple[Array, Array]:
        """Mean time in `count` blocks until the first exit, and log of passing them all."""
        log_success = np.where(count > 0, count * self.log_success, 0.0)
        passed = np.where(self.failed > 0, -np.expm1(log_success) / self.failed, count)
        return self.time * passed, log_success


class _Rates:
    """The elementary probabilities of a two-level system."""

    def __init__(self, system: System) -> None:
        self.total = max(system.rate, NEVER)
        self.share = [rate / self.total for rate in system.rates]
        self.recovery = np.asarray(system.recoveries[0])
        self.top_recovery = until_success(self.total, system.recoveries[1])

    def mean(self, length: Array) -> Array:
        return -np.expm1(-self.total * length) / self.total

    def block(self, length: Array) -> _Block:
        failed = -np.expm1(-self.total * length)
        local, top = self.share[0] * failed, self.share[1] * failed
        lost = -np.expm1(-self.total * self.recovery)  # a failure during the recovery escalates
        ends = 1 - local * (1 - lost)
        exits = (top + local * lost) / ends
        log_success = np.where(
            exits < 0.5, np.log1p(-np.minimum(exits, 0.5)), -self.total * length - np.log(ends)
        )
        time = (self.mean(length) + local * self.mean(self.recovery)) / ends
        return _Block(time, exits, log_success)

    def period(self, first: Array, middle: _Block, count: Array, last: _Block | None) -> Array:
        """Mean time of a period whose start is on the shared file system."""
        time, log_pass = middle.repeat(count)
        if last is not None:
            time = time + np.exp(log_pass) * last.time
            log_pass = log_pass + last.log_success
        log_pass = log_pass - self.total * first
        time = self.mean(first) + np.exp(-self.total * first) * time
        time = time - np.expm1(log_pass) * self.top_recovery
        return np.where(log_pass < _HOPELESS, np.inf, time / np.exp(np.maximum(log_pass, -700)))


def expected(system: System, interval: Any, segments: Any, *, asynchronous: bool) -> Array:
    """Mean seconds per period; infinite where the drain would outlast the period."""
    t, n = np.broadcast_arrays(np.asarray(interval, float), np.asarray(segments, float))
    rates = _Rates(system)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        if asynchronous:
            result = _asynchronous(system, rates, t, n)
        else:
            result = _synchronous(system, rates, t, n)
    return np.where(np.isnan(result), np.inf, result)


def _synchronous(system: System, rates: _Rates, t: Array, n: Array) -> Array:
    local, top = t + system.costs[0], t + system.costs[1]
    none = np.zeros_like(t)
    many = rates.period(local, rates.block(local), np.maximum(n - 2, 0), rates.block(top))
    return np.where(n > 1, many, rates.period(top, rates.block(top), none, None))


def _asynchronous(system: System, rates: _Rates, t: Array, n: Array) -> Array:
    plain, slowed = t + system.costs[0], (1 + system.overhead) * t + system.costs[0]
    draining = np.ceil(system.drain / slowed - 1e-9)
    block = rates.block(plain)
    again = rates.top_recovery + rates.period(plain, block, n - 1, None)
    in_flight, log_drained = rates.block(slowed).repeat(draining)
    drained, log_done = block.repeat(np.maximum(n - draining, 0))
    rest = drained - np.expm1(log_done) * again
    time = in_flight - np.expm1(log_drained) * again + np.exp(log_drained) * rest
    time = time / np.exp(np.maximum(log_drained, -700))
    return np.where((draining > n) | (log_drained < _HOPELESS), np.inf, time)


def evaluate(system: System, schedule: Schedule, *, asynchronous: bool) -> Outcome:
    """Judge one schedule of two levels."""
    draining = check_drain(system, schedule) if asynchronous else 0
    time = expected(system, schedule.interval, schedule.segments, asynchronous=asynchronous)
    return Outcome(schedule, float(time), draining)
