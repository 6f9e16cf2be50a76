"""Rates from counts, with intervals that also hold when little was seen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.stats import chi2, norm, t

from ..errors import BadInput

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Rate:
    """Events per second: seen, and the interval that holds the true rate with 95 % confidence.

    `plan` is what to plan with: the estimate, or where nothing was seen yet the rate at which
    seeing nothing is as likely as not.
    """

    count: int
    exposure: float
    estimate: float
    low: float
    high: float

    @property
    def plan(self) -> float:
        """The rate to plan with."""
        return self.estimate if self.count else math.log(2) / self.exposure


def poisson_rate(count: int, exposure: float) -> Rate:
    """Estimate a rate from `count` events in `exposure` seconds, however the watch ended.

    Runs that end without a failure are censored: their time counts, they add no event. The
    interval is exact (Garwood 1936).
    """
    if not exposure > 0:
        raise BadInput("the log covers no time, so there is no rate; it needs a start and an end")
    tail = (1 - CONFIDENCE) / 2
    low = chi2.ppf(tail, 2 * count) / 2 if count else 0.0
    high = chi2.ppf(1 - tail, 2 * count + 2) / 2
    return Rate(count, exposure, count / exposure, float(low) / exposure, float(high) / exposure)


@dataclass(frozen=True)
class Mean:
    """A mean of measured seconds with its 95 % interval; from one measurement it is unbounded."""

    count: int
    estimate: float
    low: float
    high: float


def mean(values: Sequence[float]) -> Mean:
    """Estimate a cost from measurements."""
    count, middle = len(values), float(np.mean(values))
    if count < 2:
        return Mean(count, middle, 0.0, math.inf)
    error = float(np.std(values, ddof=1)) / math.sqrt(count)
    width = float(t.ppf((1 + CONFIDENCE) / 2, count - 1)) * error
    return Mean(count, middle, max(0.0, middle - width), middle + width)


@dataclass(frozen=True)
class Shape:
    """Shape of a Weibull distribution of times between failures: 1 is Poisson, below: bursts."""

    estimate: float
    low: float
    high: float

    @property
    def poisson(self) -> bool:
        """Whether the model's assumption is not refuted."""
        return self.low <= 1 <= self.high


def weibull_shape(times: Sequence[float], censored: Sequence[float]) -> Shape | None:
    """Fit by maximum likelihood `times` between failures and those cut off without one.

    None if there are fewer than three failures, or if they say nothing (all alike).
    """
    ended = np.array([value for value in times if value > 0])
    if len(ended) < 3 or np.ptp(ended) == 0:
        return None
    every = np.concatenate([ended, [value for value in censored if value > 0]])
    scale = every.max()  # the shape does not depend on the unit; powers stay in range
    every, mean_log = every / scale, float(np.log(ended / scale).mean())
    logs = np.log(every)

    def slope(shape: float) -> float:
        powers = every**shape
        return 1 / shape + mean_log - float((powers * logs).sum() / powers.sum())

    if slope(1e-3) < 0 or slope(1e3) > 0:
        return None
    shape = float(brentq(slope, 1e-3, 1e3))
    powers = every**shape
    weights = powers / powers.sum()
    spread = float((weights * logs**2).sum() - (weights * logs).sum() ** 2)
    information = len(ended) * (1 / shape**2 + spread)  # of the profile likelihood
    width = float(norm.ppf((1 + CONFIDENCE) / 2)) / math.sqrt(information) / shape
    return Shape(shape, shape * math.exp(-width), shape * math.exp(width))
