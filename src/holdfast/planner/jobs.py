"""Which jobs fail, and how often nodes do: section III of FT-Cache, on any site's own log."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from ..errors import BadInput
from .rates import Rate, poisson_rate

#: Slurm's states by kind of failure; the paper's names.
KINDS = {
    "FAILED": "job fail", "OUT_OF_MEMORY": "job fail",
    "TIMEOUT": "timeout", "DEADLINE": "timeout",
    "NODE_FAIL": "node fail", "BOOT_FAIL": "node fail",
}  # fmt: skip
KIND_NAMES = ("node fail", "timeout", "job fail")
#: Other states (cancelled, preempted, running ...) are left out of ratios; node hours count.
SUCCEEDED = ("COMPLETED", "COMPLETING")


@dataclass(frozen=True)
class LoggedJob:
    """One job of the log."""

    state: str
    nodes: int
    elapsed: float
    end: datetime | None

    @property
    def kind(self) -> str | None:
        """Its kind of failure, None if it did not fail."""
        return KINDS.get(self.state)

    @property
    def counted(self) -> bool:
        """Whether it enters the ratios."""
        return self.state in KINDS or self.state in SUCCEEDED


@dataclass(frozen=True)
class Share:
    """Failures of one kind among the jobs of a class."""

    count: int
    of_failures: float
    of_jobs: float


@dataclass(frozen=True)
class Bin:
    """Jobs whose size or elapsed time lies in [low, high)."""

    low: float
    high: float
    jobs: int
    kinds: dict[str, Share]


@dataclass(frozen=True, kw_only=True)
class Analysis:
    """What the log says."""

    jobs: int
    failures: int
    kinds: dict[str, Share]
    by_nodes: list[Bin]
    by_elapsed: list[Bin]
    weekly: dict[str, dict[str, float]]
    mean_elapsed: float
    node_seconds: float
    node_failures: Rate


def _shares(jobs: list[LoggedJob]) -> dict[str, Share]:
    failures = sum(job.kind is not None for job in jobs)
    counts = {kind: sum(job.kind == kind for job in jobs) for kind in KIND_NAMES}
    return {
        kind: Share(count, count / failures if failures else 0.0, count / len(jobs))
        for kind, count in counts.items()
    }


def _bins(
    jobs: list[LoggedJob], edges: list[float], value: Callable[[LoggedJob], float]
) -> list[Bin]:
    bins = []
    for low, high in pairwise(edges):
        inside = [job for job in jobs if low <= value(job) < high]
        if inside:
            bins.append(Bin(low, high, len(inside), _shares(inside)))
    return bins


def _doubling(least: float, most: float) -> list[float]:
    edges = [least]
    while edges[-1] <= most:
        edges.append(edges[-1] * 2)
    return edges


def analyse(jobs: Iterable[LoggedJob], node_edges: list[float] | None = None) -> Analysis:
    """Count failures by kind, size, elapsed time and week; estimate the rate of node failures.

    Job sizes are binned by doubling unless `node_edges` are given.
    """
    everything = list(jobs)
    counted = [job for job in everything if job.counted]
    failed = [job for job in counted if job.kind]
    node_seconds = sum(job.nodes * job.elapsed for job in everything)
    if not counted:
        raise BadInput("the log has no job that ended by itself, so failures cannot be estimated")
    if not node_seconds:
        raise BadInput("the jobs in the log used no node time; is NNodes filled in?")
    most_nodes = max(job.nodes for job in counted)
    most_time = max(job.elapsed for job in counted)
    weeks: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for job in failed:
        if job.end is not None:
            year, week, _ = job.end.isocalendar()
            weeks[f"{year}-W{week:02}"][job.kind or ""].append(job.elapsed)
    return Analysis(
        jobs=len(counted),
        failures=len(failed),
        kinds=_shares(counted),
        by_nodes=_bins(counted, node_edges or _doubling(1, most_nodes), lambda job: job.nodes),
        by_elapsed=_bins(counted, [0.0, *_doubling(900.0, most_time)], lambda job: job.elapsed),
        weekly={
            week: {kind: sum(times) / len(times) for kind, times in kinds.items()}
            for week, kinds in sorted(weeks.items())
        },
        mean_elapsed=sum(job.elapsed for job in failed) / len(failed) if failed else 0.0,
        node_seconds=node_seconds,
        node_failures=poisson_rate(
            sum(job.kind == "node fail" for job in everything), node_seconds
        ),
    )
