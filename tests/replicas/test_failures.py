"""Damage, loss of all copies, spares, and the examples; each with ranks that really die."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import launch
import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize(
    ("scenario", "ranks"),
    [
        ("damage", 5),
        ("damage_anywhere", 4),
        ("damage_on_the_way", 4),
        ("damage_restored", 5),
        ("damage_varied", 4),
        ("memory", 3),
        ("loss", 6),
        ("host", 6),
        ("few", 4),
        ("together", 6),
        ("guarded", 4),
        ("spares", 7),
        ("idle_spares", 5),
        ("joining_spares", 10),
    ],
)
def test_scenario(mpi_passes: Callable[..., str], scenario: str, ranks: int) -> None:
    mpi_passes("failures.py", scenario, ranks=ranks, timeout=40)


def test_kmeans_finds_the_same_centres(mpi_passes: Callable[..., str], scratch: Path) -> None:
    centres = []
    for more in ((), ("--kill", 2, "--at", 4)):
        saved = scratch / f"centres{len(more)}.npy"
        options = ("--points", 2000, "--iterations", 8, "--copies", 3, "--save", saved)
        said = mpi_passes(EXAMPLES / "kmeans.py", *options, *more, ranks=5, timeout=40)
        assert f"{4 if more else 5} of 5 ranks finished 8 iterations" in said
        centres.append(np.load(saved))
    assert np.abs(centres[0] - centres[1]).max() < 1e-9


def test_wordcount_misses_no_word(mpi_passes: Callable[..., str]) -> None:
    said = mpi_passes(
        EXAMPLES / "wordcount.py", "--documents", 200, "--kill", 1, ranks=4, timeout=40
    )
    assert "3 of 4 ranks counted" in said
    assert "as many as there are" in said


@pytest.mark.parametrize(("name", "options"), [("MPICH", {"mpich": True}), ("Open", {})])
def test_an_mpi_without_ulfm_says_what_is_needed(
    mpi_passes: Callable[..., str], name: str, options: dict[str, bool]
) -> None:
    said = mpi_passes("without_ulfm.py", "recover", ranks=3, ulfm=False, timeout=60, **options)
    assert said.count("cannot recover") == 3
    assert name in said


def test_a_death_on_an_mpi_without_ulfm_ends_the_program(scratch: Path) -> None:
    done = launch.run("without_ulfm.py", "die", ranks=3, scratch=scratch, mpich=True, timeout=60)
    assert done.stdout.count("submitted") == 3
    assert done.returncode != 0
