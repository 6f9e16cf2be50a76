"""How long the planner's answers take: the wait of somebody who types `holdfast plan`."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from ..planner.checkpoint import optimum
from ..planner.checkpoint.system import System
from ..planner.ring import RingSetting, simulate
from .figures import Figure, Report, at_most

#: Failure rates of three machines, survived by local copies and not; docs/models/checkpoint.md.
_RATES = ((2.0e-5, 1.33e-6), (7.78e-6, 5.19e-7), (8.54e-7, 2.01e-7))
_FACTORS = [(failures, shared) for failures in (1, 2, 10) for shared in (1, 2, 10)]


def _least(run: Callable[[], object], times: int) -> float:
    """Seconds of the least disturbed of several runs."""
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def run() -> Report:
    """Time what the planner's targets name."""
    machines = [
        System((72.5, 6380.0), (72.5, 6380.0), rates, 6380.0, 0.00184).scaled(failures, shared)
        for rates in _RATES
        for failures, shared in _FACTORS
    ]
    four = System(
        (1.0, 5.0, 72.5, 6380.0), (1.0, 5.0, 72.5, 6380.0), (1e-5, 1e-5, 5e-6, 1.33e-6), 6380.0,
        0.00184,
    )  # fmt: skip

    def sweep() -> None:
        for machine in machines:
            for asynchronous in (False, True):
                optimum.best(machine, asynchronous=asynchronous)

    def takeovers() -> None:
        rng = np.random.default_rng(0)
        for virtual_nodes in (10, 50, 100, 500, 1000):
            simulate(RingSetting(1024, virtual_nodes, 524_288), 500, rng)

    def slower_of_two(one: System, times: int) -> float:
        return max(
            _least(lambda: optimum.best(one, asynchronous=False), times),
            _least(lambda: optimum.best(one, asynchronous=True), times),
        )

    target = "what a person waits for"
    figures: list[Figure] = [
        at_most("two-level optimum", 1e3 * slower_of_two(machines[0], 7), 50, "ms", target),
        at_most("sweep, 27 machines, both ways", _least(sweep, 1), 10, "s", target),
        at_most("four-level optimum", slower_of_two(four, 2), 5, "s", target),
        at_most("ring, 500 trials x 5 settings", _least(takeovers, 1), 60, "s", target),
    ]
    return Report("planner", figures)
