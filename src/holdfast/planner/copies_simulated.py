"""Failures in random order until data is lost, on the real placement of copies."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from . import Estimate
from .copies import Copies, share_failed


def simulate(plan: Copies, trials: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """Let random units fail in turn until data is lost: the number of failures, per trial."""
    return np.array([_failures_until_loss(plan, rng) for _ in range(trials)])


def mean_of(samples: npt.NDArray[np.int64]) -> Estimate:
    """Return the mean of a simulation."""
    return Estimate(float(samples.mean()), float(samples.std(ddof=1)) / math.sqrt(len(samples)))


def _failures_until_loss(plan: Copies, rng: np.random.Generator) -> int:
    order = np.empty(0, np.int64)
    length = math.ceil(share_failed(plan, 0.7) * plan.units) + 10
    while True:
        order = _drawn(order, length, plan.units, rng)
        found = _first_loss(plan, order)
        if found is not None:
            return found
        length *= 2


def _drawn(
    order: npt.NDArray[np.int64], length: int, units: int, rng: np.random.Generator
) -> npt.NDArray[np.int64]:
    """Go on drawing different units after those of `order`, to about `length` or all of them."""
    if length > units // 2:
        rest = np.setdiff1d(np.arange(units), order, assume_unique=True)
        return np.concatenate([order, rng.permutation(rest)])
    drawn = np.concatenate([order, rng.integers(0, units, length - len(order))])
    _, first = np.unique(drawn, return_index=True)
    return drawn[np.sort(first)]  # who fails twice fails once, the first time


def _first_loss(plan: Copies, order: npt.NDArray[np.int64]) -> int | None:
    """Return the number of failures, in this order, at which a set of copies is complete."""
    ranks = (order[:, None] * plan.together + np.arange(plan.together)).ravel()
    times = np.repeat(np.arange(1, len(order) + 1), plan.together)
    inside = ranks < plan.ranks
    ranks, times = ranks[inside], times[inside]
    apart = plan.ranks // plan.copies
    if plan.ranks % plan.copies == 0:
        sets = ranks % apart  # the same group, whichever copy
    else:  # rank x belongs to the sets that start at x, x - apart, x - 2 apart ...
        back = np.arange(plan.copies) * apart
        sets = ((ranks[:, None] - back) % plan.ranks).ravel()
        times = np.repeat(times, plan.copies)
    sets, times = np.divmod(np.sort(sets * (len(order) + 1) + times), len(order) + 1)
    last = plan.copies - 1
    complete = np.flatnonzero(sets[last:] == sets[: len(sets) - last])
    return int(times[complete + last].min()) if len(complete) else None
