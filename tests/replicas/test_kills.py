"""Ranks die by SIGKILL at every stage; those that are left check every byte that they load."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from launch import DidNotEnd

CALLS = ("submit", "load", "restore", "recover")
WHEN = ("before", "in", "after")
COMPANY = ("one", "two at once", "one more in recovery", "rank 0", "all holders")
STAGES = [*(f"{when} {call}" for call in CALLS for when in WHEN), *COMPANY]
RANKS, EACH, TIMEOUT = 10, 4, 40
#: Now and then an agreement of Open MPI does not end after a death, without us as well as with us
#: (docs/explanation/replicas.md): of so many schedules, one may hang. None may go wrong.
MAY_HANG = 30


def run_schedules(mpi_passes: Callable[..., str], report: Path, seed: int, wanted: int) -> None:
    """Run `wanted` schedules, several in each start of mpiexec, with kills at every stage."""
    done = hung = 0
    kills: Counter[str] = Counter()
    while done < wanted:
        report.write_text("")
        print(f"schedules from {done} of seed {seed}", flush=True)
        drawn = seed + 1000 * hung
        try:
            said = mpi_passes("kills.py", drawn, done, EACH, report, ranks=RANKS, timeout=TIMEOUT)
        except DidNotEnd:
            hung += 1
            assert hung <= wanted // MAY_HANG, f"{hung} of {done} schedules did not end"
            continue
        lines = report.read_text().splitlines()
        finished: dict[int, set[int]] = {}
        for line in lines:
            kind, _, what = line.partition(" ")
            if kind == "kill":
                kills.update(what.split(", "))
                continue
            number, rank, size = map(int, what.split())
            finished.setdefault(number, set(range(size))).remove(rank)
        # mpiexec says nothing of ranks that did not come to their end: each must have said so.
        late = {number: ranks for number, ranks in finished.items() if ranks}
        assert not late, f"ranks that did not finish, by schedule of seed {drawn}: {late}\n{said}"
        assert done in finished, f"schedule {done} of seed {drawn} did not end: {lines}\n{said}"
        done = max(finished) + 1
    print("\n".join(f"{kills[stage]:4d} kills {stage}" for stage in STAGES))
    print(f"{hung} starts did not end")
    missed = [stage for stage in STAGES if not kills[stage]]
    assert not missed, f"no rank died {missed}"


@pytest.mark.timeout(300)
def test_random_schedules_of_kills(mpi_passes: Callable[..., str], scratch: Path) -> None:
    run_schedules(mpi_passes, scratch / "report", seed=1, wanted=30)


@pytest.mark.parametrize(
    "seed", [2, *(pytest.param(s, marks=pytest.mark.soak) for s in range(3, 20))]
)
def test_what_is_under_way_when_a_rank_dies_harms_nobody(
    mpi_passes: Callable[..., str], seed: int
) -> None:
    said = mpi_passes("under_way.py", seed, ranks=7, timeout=60)
    assert "3 ranks are left" in said


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_many_random_schedules_of_kills(mpi_passes: Callable[..., str], scratch: Path) -> None:
    run_schedules(mpi_passes, scratch / "report", seed=7, wanted=300)
