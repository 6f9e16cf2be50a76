"""When the last copy is lost: formula against integers, simulation and the paper's claims."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import kstest

from holdfast.errors import BadInput
from holdfast.planner.copies import (
    Copies,
    _survives,
    approximation,
    expected_failures,
    lost_at,
    lost_at_most,
    lost_up_to,
    quantile,
)
from holdfast.planner.copies_simulated import mean_of, simulate


def counted(ranks: int, copies: int) -> list[Fraction]:
    """Chance to survive f failures, counted in integers: ((1+x)^r - x^r)^g."""
    group = [math.comb(copies, k) for k in range(copies)]
    sets = [1]
    for _ in range(ranks // copies):
        grown = [0] * (len(sets) + copies - 1)
        for i, a in enumerate(sets):
            for j, b in enumerate(group):
                grown[i + j] += a * b
        sets = grown
    sets += [0] * (ranks + 1 - len(sets))
    return [Fraction(sets[f], math.comb(ranks, f)) for f in range(ranks + 1)]


def alternating(ranks: int, copies: int, failed: int) -> Fraction:
    """The paper's sum, in exact arithmetic."""
    groups = ranks // copies
    total = Fraction(0)
    for j in range(1, groups + 1):
        if failed >= j * copies:
            sets = math.comb(ranks - j * copies, failed - j * copies)
            total += (-1) ** (j + 1) * Fraction(
                math.comb(groups, j) * sets, math.comb(ranks, failed)
            )
    return total


@pytest.mark.parametrize(("ranks", "copies"), [(12, 1), (12, 2), (24, 3), (64, 4), (96, 4)])
def test_formula_is_the_count(ranks, copies) -> None:
    plan, exact = Copies(ranks, copies), counted(ranks, copies)
    for failed in range(ranks + 1):
        chance = _survives(copies, ranks // copies, failed)
        assert chance == pytest.approx(float(exact[failed]), rel=1e-12, abs=1e-300)
        lost = 1 - exact[failed]
        assert lost_up_to(plan, failed) == pytest.approx(float(lost), rel=1e-6, abs=1e-300)
        if failed:
            now = exact[failed - 1] - exact[failed]
            assert lost_at(plan, failed) == pytest.approx(float(now), rel=1e-12, abs=1e-300)
    assert expected_failures(plan) == pytest.approx(float(sum(exact)), rel=1e-12)


def test_the_papers_sum_is_the_same_number() -> None:
    for failed in (4, 9, 20, 33):
        count = 1 - counted(64, 4)[failed]
        assert alternating(64, 4, failed) == count


def test_where_the_alternating_sum_fails_in_floating_point_ours_does_not() -> None:
    """p = 2^15, f = 10^4: the float form of the sum gives nonsense, the truth is 1."""
    ranks, copies, failed = 2**15, 4, 10**4
    groups = ranks // copies
    terms = []
    for j in range(1, 300):
        log = math.lgamma(groups + 1) - math.lgamma(j + 1) - math.lgamma(groups - j + 1)
        for i in range(j * copies):
            log += math.log((failed - i) / (ranks - i))
        terms.append((-1) ** (j + 1) * math.exp(log))
    assert abs(sum(terms)) > 1e6
    assert lost_up_to(Copies(ranks, copies), failed) == 1.0
    for f in (1000, 2000, 3000, 4000):
        chances = [lost_up_to(Copies(ranks, copies), f) for f in (f - 1, f)]
        step = lost_at(Copies(ranks, copies), f)
        assert 0 < chances[0] < chances[1] < 1
        assert chances[1] - chances[0] == pytest.approx(step, rel=1e-6)


@pytest.mark.parametrize(("ranks", "copies"), [(4, 4), (64, 1), (2**20, 1), (96, 2), (3000, 3)])
def test_quantiles_are_where_the_chance_passes(ranks, copies) -> None:
    plan = Copies(ranks, copies)
    for share in (0.001, 0.1, 0.5, 0.9, 0.999):
        failed = quantile(plan, share)
        assert lost_up_to(plan, failed) >= share
        assert lost_up_to(plan, failed - 1) < share


def test_tiny_chances_keep_their_digits() -> None:
    plan = Copies(2**20, 4)
    first = 2**18 * math.prod((10 - i) / (2**20 - i) for i in range(4))
    assert lost_up_to(plan, 10) == pytest.approx(first, rel=1e-9)
    assert approximation(plan, 10) == pytest.approx(2**18 * (10 / 2**20) ** 4)


@pytest.mark.parametrize("copies", [1, 2, 3, 4])
@pytest.mark.parametrize("ranks", [2**6, 2**10, 2**15])
def test_formula_and_simulation_agree(ranks, copies) -> None:
    ranks -= ranks % copies  # where r divides p the groups are disjoint
    plan = Copies(ranks, copies)
    samples = simulate(plan, 400, np.random.default_rng(ranks + copies))
    if copies == 1:
        assert (samples == 1).all()
        return
    assert abs(mean_of(samples).sigmas(expected_failures(plan))) < 3
    for share in (0.25, 0.75):
        failed = quantile(plan, share)
        chance = lost_up_to(plan, failed)
        assert lost_up_to(plan, failed - 1) < share <= chance
        seen = (samples <= failed).mean()
        assert abs(seen - chance) < 3 * math.sqrt(chance * (1 - chance) / len(samples))


def test_four_copies_at_2_to_the_25_as_a_distribution() -> None:
    """The paper: more than 1 % of the ranks must fail. On average 1.7 %, but not always."""
    plan = Copies(2**25, 4)
    one_percent = 2**25 // 100
    assert expected_failures(plan) / 2**25 == pytest.approx(0.01684, abs=1e-5)
    assert lost_up_to(plan, one_percent) == pytest.approx(0.0805, abs=1e-3)
    assert quantile(plan, 0.1) / 2**25 == pytest.approx(0.01059, abs=1e-5)
    samples = simulate(plan, 8, np.random.default_rng(25))
    assert abs(mean_of(samples).sigmas(expected_failures(plan))) < 3


def test_the_whole_distribution_is_the_simulated_one() -> None:
    plan = Copies(2**18, 4)
    samples = simulate(plan, 150, np.random.default_rng(18))

    def distribution(values):
        return np.array([lost_up_to(plan, int(value)) for value in np.atleast_1d(values)])

    assert kstest(samples, distribution).pvalue > 0.01


def test_copies_that_do_not_divide_the_ranks_are_lost_sooner() -> None:
    """Then sets overlap and are r times as many: loss comes at about r^(-1/r) of the failures."""
    even, odd = Copies(2049, 3), Copies(2048, 3)
    assert even.exact
    assert not odd.exact
    rng = np.random.default_rng(3)
    seen_even, seen_odd = (mean_of(simulate(plan, 400, rng)) for plan in (even, odd))
    assert abs(seen_even.sigmas(expected_failures(even))) < 3
    assert seen_odd.mean / seen_even.mean == pytest.approx(3 ** (-1 / 3), rel=0.12)
    assert approximation(odd, 50) == pytest.approx(3 * approximation(even, 50), rel=0.01)
    samples = simulate(odd, 2000, rng)
    for failed in (2, 20, 60, 120):
        bound = lost_at_most(odd, failed)
        seen = (samples <= failed).mean()
        assert seen <= bound + 3 * math.sqrt(bound * (1 - bound) / len(samples))
    assert lost_at_most(odd, 2) == 0.0  # three copies survive any two
    assert lost_up_to(even, 60) <= lost_at_most(even, 60) < 1.05 * lost_up_to(even, 60)


def test_ranks_that_fail_together_count_as_one() -> None:
    together, alone = Copies(48 * 64, 4, together=48), Copies(64, 4)
    assert together.exact
    assert expected_failures(together) == expected_failures(alone)
    assert lost_up_to(together, 9) == lost_up_to(alone, 9)
    samples = simulate(together, 400, np.random.default_rng(1))
    assert abs(mean_of(samples).sigmas(expected_failures(alone))) < 3
    straddling = Copies(4 * 100, 4, together=48)
    assert not straddling.exact
    assert simulate(straddling, 50, np.random.default_rng(1)).max() <= straddling.units


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((10, 0), "at least one copy"),
        ((3, 4), "a rank for each"),
        ((8, 2, 0), "at least 1"),
        ((64, 4, 32), "several copies at once"),
    ],
)
def test_impossible_plans_are_refused(arguments, message) -> None:
    with pytest.raises(BadInput, match=message):
        Copies(*arguments)
    with pytest.raises(BadInput, match="65 failures of 64"):
        lost_up_to(Copies(64, 4), 65)
