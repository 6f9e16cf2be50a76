"""Submitting and loading without failures, and every mistake that a caller can make."""

from __future__ import annotations

from collections.abc import Callable

import pytest


@pytest.mark.parametrize("ranks", [1, 5])
def test_blocks_come_back(mpi_passes: Callable[..., str], ranks: int) -> None:
    said = mpi_passes("basics.py", ranks=ranks, timeout=60)
    assert said.count("is done") == ranks


def test_any_mpi_will_do_until_the_first_failure(mpi_passes: Callable[..., str]) -> None:
    said = mpi_passes("basics.py", ranks=2, ulfm=False, timeout=60)
    assert said.count("is done") == 2


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_more_than_two_gibibytes(mpi_passes: Callable[..., str]) -> None:
    mpi_passes("large.py", ranks=2, timeout=500)
