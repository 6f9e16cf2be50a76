"""The figures of `holdfast bench membership`, on a small scale."""

from __future__ import annotations

import gc

import pytest

from holdfast.errors import BadInput
from holdfast.simulation.figures import membership


def test_the_figures_of_a_small_cluster() -> None:
    figures = membership(200, 150, moments=2, deaths_each=3)
    assert figures.deaths == 6
    assert figures.unknown == 0
    assert figures.false_deaths == 0
    assert 1 < figures.suspicion_known <= figures.suspicion_known_worst <= 12
    assert figures.suspicion_known < figures.death_known <= figures.death_known_worst <= 22
    assert 2 <= figures.messages <= 5
    assert gc.isenabled()


def test_one_seed_is_one_figure() -> None:
    assert membership(50, 100, moments=2) == membership(50, 100, moments=2)
    assert membership(50, 100, moments=2) != membership(50, 100, moments=2, seed=2)


def test_where_most_is_lost_the_figures_say_what_went_wrong() -> None:
    figures = membership(30, 150, moments=2, loss=0.6)
    assert figures.false_suspicions > 0
    assert figures.false_deaths > 0


@pytest.mark.parametrize(
    ("nodes", "periods", "moments"), [(10, 50, 1), (10, 100, 0), (10, 100, 5), (10, 100, 90)]
)
def test_what_cannot_be_simulated_is_refused(nodes: int, periods: int, moments: int) -> None:
    with pytest.raises(BadInput, match=r"do not fit|cannot die"):
        membership(nodes, periods, moments=moments)
