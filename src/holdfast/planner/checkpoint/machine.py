"""From bandwidths and sizes to costs: what people know about their machine."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from scipy.optimize import brentq

from ...errors import BadInput
from . import optimum
from .system import Outcome, System

#: How far from the present bandwidth a wanted efficiency is looked for.
_SEARCH = 1e5


@dataclass(frozen=True, kw_only=True)
class Machine:
    """A job of `nodes` with a local and a shared tier; sizes in bytes, rates in bytes/s.

    `rates` are failures per second that the local tier survives and that it does not; `restart`
    is what every recovery costs beside reading: scheduling, replacing a node.
    """

    nodes: int
    checkpoint: float
    local: float
    shared: float
    rates: tuple[float, float]
    overhead: float = 0.0
    restart: float = 0.0

    def __post_init__(self) -> None:
        for what, value in (
            ("number of nodes", self.nodes),
            ("checkpoint size", self.checkpoint),
            ("local bandwidth", self.local),
            ("shared bandwidth", self.shared),
        ):
            if not value > 0:
                raise BadInput(f"the {what} is {value:g}; it must be above 0")

    @property
    def total(self) -> float:
        """Bytes of one checkpoint of the whole job."""
        return self.nodes * self.checkpoint

    def system(self) -> System:
        """Return the model's inputs."""
        local, shared = self.checkpoint / self.local, self.total / self.shared
        recoveries = (local + self.restart, shared + self.restart)
        return System((local, shared), recoveries, self.rates, shared, self.overhead)


def needed_bandwidth(machine: Machine, efficiency: float, *, asynchronous: bool) -> float | None:
    """Return the shared bandwidth at which the best plan reaches `efficiency`; None if none does.

    The local checkpoints set a ceiling that no shared file system lifts.
    """
    if not 0 < efficiency < 1:
        raise BadInput(f"an efficiency of {efficiency:g}; it must be between 0 and 100 %")

    def missing(log_bandwidth: float) -> float:
        candidate = replace(machine, shared=math.exp(log_bandwidth)).system()
        outcome = optimum.best(candidate, asynchronous=asynchronous)
        return (outcome.efficiency if outcome else 0.0) - efficiency

    low, high = math.log(machine.shared / _SEARCH), math.log(machine.shared * _SEARCH)
    if missing(high) < 0:
        return None
    if missing(low) > 0:
        return math.exp(low)
    return math.exp(brentq(missing, low, high, xtol=1e-4))


@dataclass(frozen=True)
class Staging:
    """One measured number of staging nodes: what it writes, and what the job gets out of it."""

    nodes: int
    bandwidth: float
    overhead: float
    outcome: Outcome

    def useful(self, compute_nodes: int) -> float:
        """Efficiency per allocated node: staging nodes compute nothing."""
        return self.outcome.efficiency * compute_nodes / (compute_nodes + self.nodes)


def staging(
    machine: Machine, curve: list[tuple[int, float]], overhead_of: Callable[[float], float]
) -> list[Staging]:
    """Judge each point of a write curve (staging nodes, bytes/s), with the best schedule for it.

    Points at which no schedule makes progress are left out.
    `overhead_of` gives the slowdown for a read rate per staging node (paper, figure 9).
    """
    points = []
    for nodes, bandwidth in sorted(curve):
        overhead = overhead_of(bandwidth / nodes)
        candidate = replace(machine, shared=bandwidth, overhead=overhead)
        outcome = optimum.best(candidate.system(), asynchronous=True)
        if outcome is not None:
            points.append(Staging(nodes, bandwidth, overhead, outcome))
    return points


def enough_threads(curve: list[tuple[int, float]], share: float = 0.95) -> tuple[int, float]:
    """Return the fewest writer threads of a curve that reach `share` of its best rate."""
    best = max(rate for _, rate in curve)
    return next((count, rate) for count, rate in sorted(curve) if rate >= share * best)
