"""Ranks die by SIGKILL at every stage; those that are left check every byte that they load."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

CALLS = ("submit", "load", "restore", "recover")
WHEN = ("before", "in", "after")
STAGES = [f"{when} {call}" for call in CALLS for when in WHEN]
RANKS, EACH = 10, 4


def run_schedules(
    mpi_passes: Callable[..., str], report: Path, seed: int, wanted: int
) -> Counter[str]:
    """Run `wanted` schedules, several in each start of mpiexec; return the kills by stage."""
    done: set[int] = set()
    kills: Counter[str] = Counter()
    while len(done) < wanted:
        first = max(done, default=-1) + 1
        report.write_text("")
        said = mpi_passes("kills.py", seed, first, EACH, report, ranks=RANKS, timeout=40)
        lines = [line.split(maxsplit=1) for line in report.read_text().splitlines()]
        done |= {int(what) for kind, what in lines if kind == "done"}
        assert first in done, f"schedule {first} of seed {seed} did not end: {lines}\n{said}"
        kills.update(what for kind, what in lines if kind == "kill")
    print("\n".join(f"{kills[stage]:4d} kills {stage}" for stage in STAGES))
    return kills


@pytest.mark.timeout(200)
def test_random_schedules_of_kills(mpi_passes: Callable[..., str], scratch: Path) -> None:
    kills = run_schedules(mpi_passes, scratch / "report", seed=1, wanted=12)
    missed = [call for call in CALLS if not any(kills[f"{when} {call}"] for when in WHEN)]
    assert not missed, f"no rank died around {missed}"


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_many_random_schedules_of_kills(mpi_passes: Callable[..., str], scratch: Path) -> None:
    kills = run_schedules(mpi_passes, scratch / "report", seed=7, wanted=300)
    missed = [stage for stage in STAGES if not kills[stage]]
    assert not missed, f"no rank died {missed}"
