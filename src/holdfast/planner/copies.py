"""When the last copy of something is lost: r copies of each block on p ranks, f of them failed.

Rank i and those p/r, 2p/r ... further on hold the same blocks: g = p/r groups, and data is lost
when a whole group has failed. Sets of f failures that spare every group are counted as the
coefficient of x^f in ((1+x)^r - x^r)^g, which has positive terms only; the usual alternating sum
over groups cancels to nonsense in floating point. Docs: models/copies.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.special import betaln, gammaln
from scipy.stats import binom

from ..errors import BadInput

_Chances: TypeAlias = npt.NDArray[np.float64]
#: Chances below this are dropped from a distribution while it is convolved with itself.
_NEGLIGIBLE = 1e-25
#: Below this many groups lost on average, two terms of the alternating sum are exact to rounding;
#: above the other, no double tells the chance of loss from 1.
_RARE, _SURE = 1e-6, 50.0


@dataclass(frozen=True)
class Copies:
    """`copies` of each block on `ranks`, of which `together` neighbours fail as one (a node)."""

    ranks: int
    copies: int
    together: int = 1

    def __post_init__(self) -> None:
        if self.copies < 1 or self.ranks < self.copies:
            raise BadInput(
                f"{self.copies} copies on {self.ranks} ranks; use at least one copy, and "
                "a rank for each"
            )
        if self.together < 1:
            raise BadInput(f"{self.together} ranks fail together; use at least 1")
        if self.together > self.ranks // self.copies and self.copies > 1:
            raise BadInput(
                f"copies lie {self.ranks // self.copies} ranks apart, so {self.together} ranks "
                f"that fail together take several copies at once; use fewer copies or more ranks"
            )

    @property
    def exact(self) -> bool:
        """Whether the groups are disjoint and made of whole failure units, as the formula needs."""
        return self.ranks % self.copies == 0 and (self.ranks // self.copies) % self.together == 0

    @property
    def units(self) -> int:
        """What fails as one: ranks, or nodes of several."""
        return -(-self.ranks // self.together)

    @property
    def groups(self) -> int:
        """Groups of `copies` units that hold the same blocks (rounded down if not `exact`)."""
        return self.units // self.copies

    def _usable(self) -> tuple[int, int, int]:
        groups = self.groups
        return groups * self.copies, self.copies, groups


def _survives(r: int, g: int, f: int) -> float:
    """Probability that f failures, drawn at random, spare each of g groups of r."""
    if f < r:
        return 1.0
    if f > g * (r - 1):
        return 0.0
    p = r * g
    if f == g * (r - 1):  # one survivor in each group
        return math.exp(g * math.log(r) - _log_choose(p, f))
    # Let every rank fail by itself with chance q, chosen such that the groups that survive lose f
    # on average; then f is a likely sum, and nothing here is a small difference.
    q = brentq(lambda q: _mean_failed(r, q) - f / g, 1e-300, 1 - 1e-15, xtol=1e-300, rtol=1e-14)
    one = binom.pmf(np.arange(r), r, q)
    lost = q**r
    chance = _chance_of_sum(one / one.sum(), g, f)
    without_groups = float(binom.pmf(f, p, q))
    if not without_groups:  # f is far beyond what groups survive
        return 0.0
    return min(1.0, math.exp(g * math.log1p(-lost)) * chance / without_groups)


def _mean_failed(r: int, q: float) -> float:
    """Mean failures of a group that does not fail whole, each rank failing with chance q."""
    return r * q * -math.expm1((r - 1) * math.log(q)) / -math.expm1(r * math.log(q))


def _chance_of_sum(one: _Chances, count: int, wanted: int) -> float:
    """Chance that `count` draws from `one` add up to `wanted`."""
    if count == 1:
        return float(one[wanted]) if wanted < len(one) else 0.0
    # Of the last and largest convolution only one term is asked for.
    half, start = _sum_of(one, count // 2)
    other, other_start = _one_more(half, start, one) if count % 2 else (half, start)
    left = np.arange(len(half))
    right = wanted - start - other_start - left
    inside = (right >= 0) & (right < len(other))
    return float(half[left[inside]] @ other[right[inside]])


def _sum_of(one: _Chances, count: int) -> tuple[_Chances, int]:
    """Distribution of the sum of `count` draws, and the value that its first entry is for."""
    if count == 1:
        return one, 0
    half, start = _sum_of(one, count // 2)
    whole, start = _trim(np.convolve(half, half), 2 * start)
    return _one_more(whole, start, one) if count % 2 else (whole, start)


def _one_more(chances: _Chances, start: int, one: _Chances) -> tuple[_Chances, int]:
    return _trim(np.convolve(chances, one), start)


def _trim(values: _Chances, start: int) -> tuple[_Chances, int]:
    kept = np.flatnonzero(values > _NEGLIGIBLE)
    return values[kept[0] : kept[-1] + 1], start + int(kept[0])


def _log_choose(n: int, k: int) -> float:
    return float(gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1))


def _check(failed: int, ranks: int) -> None:
    if not 0 <= failed <= ranks:
        raise BadInput(
            f"{failed} failures of {ranks} ranks or nodes; give a number from 0 to {ranks}"
        )


def lost_up_to(plan: Copies, failed: int) -> float:
    """Probability that data is lost at failure number `failed` or before."""
    p, r, g = plan._usable()
    _check(failed, p)
    first = g * _all_of(r, p, failed)
    if first < _RARE:
        second = g * (g - 1) / 2 * _all_of(2 * r, p, failed)
        return first - second
    if first > _SURE:  # surviving is at most exp(-first): groups compete for the failures
        return 1.0
    return 1 - _survives(r, g, failed)


def lost_at_most(plan: Copies, failed: int) -> float:
    """Bound the probability of loss for any placement: each set of copies by itself.

    Where groups are not disjoint every unit can start a set of its own.
    """
    _check(failed, plan.units)
    sets = plan.groups if plan.exact else plan.units
    return min(1.0, sets * _all_of(plan.copies, plan.units, failed))


def lost_at(plan: Copies, failed: int) -> float:
    """Probability that data is lost at failure number `failed`, not before.

    The last failure completes one of g groups, and the other g - 1 survive the rest.
    """
    p, r, g = plan._usable()
    _check(failed, p)
    if failed < r:
        return 0.0
    return g * r / failed * _survives(r, g - 1, failed - r) * _all_of(r, p, failed)


def _all_of(count: int, ranks: int, failed: int) -> float:
    """Chance that `count` given ranks are all among `failed` of `ranks`."""
    if failed < count:
        return 0.0
    return math.prod((failed - i) / (ranks - i) for i in range(count))


def expected_failures(plan: Copies) -> float:
    """Mean number of failures until data is lost.

    Give every rank a uniform failure time: loss comes at the least of g maxima of r, and its mean
    is that of the same order statistic, so the sum over f has a closed form.
    """
    p, r, g = plan._usable()
    return (p + 1) * math.exp(betaln(1 / r, g + 1)) / r


def quantile(plan: Copies, share: float) -> int:
    """Return the fewest failures after which data is lost with at least probability `share`."""
    if not 0 < share < 1:
        raise BadInput(f"a chance of {share:g}; it must be between 0 and 1")
    most = plan.groups * plan.copies
    near = math.ceil(share_failed(plan, share) * most)  # as if ranks failed independently
    low, high = near // 2, min(2 * near, most)
    while low and lost_up_to(plan, low) >= share:
        low //= 2
    while high < most and lost_up_to(plan, high) < share:
        high = min(2 * high, most)
    while high - low > 1:
        middle = (low + high) // 2
        if lost_up_to(plan, middle) >= share:
            high = middle
        else:
            low = middle
    return high


def share_failed(plan: Copies, lost: float) -> float:
    """Return the share of ranks, failing independently, that loses data with chance `lost`."""
    return float((-math.expm1(math.log1p(-lost) / max(1, plan.groups))) ** (1 / plan.copies))


def approximation(plan: Copies, failed: int) -> float:
    """Estimate the loss for few failures as the paper does: groups x (f/p)^r.

    If r does not divide p every rank starts a set of its own: p of them, r times as many.
    """
    sets = plan.groups if plan.exact else plan.units
    return min(1.0, sets * (failed / plan.units) ** plan.copies)
