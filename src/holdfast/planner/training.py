"""Training over a cache that loses nodes: epochs under abort, redirect, recache and two copies.

Data-parallel training waits for its slowest node in every batch, so a batch costs what the node
with the most reads from the shared file system needs. Docs: models/training.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from ..errors import BadInput
from . import Estimate

#: What to do with files that were cached on a lost node.
POLICIES = ("none", "abort", "redirect", "recache", "two copies")


@dataclass(frozen=True, kw_only=True)
class Training:
    """A job; sizes in bytes, rates in bytes/s, times in seconds.

    A batch is `batch` files, shared out over the nodes; `compute` is what one file costs its node.
    `shared_latency` is the mean wait for one file of the shared file system beside its transfer,
    `spread` its standard deviation by its mean; a node has `readers` reads under way at a time.
    `resume` is what the framework needs to go on without a node, `requeue` what a job needs to
    start again.
    """

    nodes: int
    files: int
    file_size: float
    epochs: int = 5
    batch: int = 8192
    compute: float = 0.03
    local: float = 8e9
    network: float = 20e9
    shared: float = 1e12
    shared_latency: float = 0.5
    spread: float = 0.5
    readers: int = 16
    detect: float = 1.0
    resume: float = 3.0
    requeue: float = 300.0

    def __post_init__(self) -> None:
        for what, value in (
            ("number of nodes", self.nodes), ("number of files", self.files),
            ("file size", self.file_size), ("number of epochs", self.epochs),
            ("batch", self.batch), ("local rate", self.local), ("network rate", self.network),
            ("shared rate", self.shared), ("spread of reads", self.spread),
            ("number of readers", self.readers),
        ):  # fmt: skip
            if not value > 0:
                raise BadInput(f"the {what} is {value:g}; it must be above 0")
        for what, value in (
            ("compute time", self.compute), ("latency", self.shared_latency),
            ("time to detect", self.detect), ("time to resume", self.resume),
            ("time in the queue", self.requeue),
        ):  # fmt: skip
            if value < 0:
                raise BadInput(f"the {what} is {value:g}; it cannot be negative")
        if not self.nodes <= self.batch <= self.files:
            raise BadInput(
                f"a batch of {self.batch} of {self.files} files on {self.nodes} nodes; "
                "use at least one file per node and at most all files"
            )


def epoch(job: Training, missing: float, rng: np.random.Generator, fills: int = 1) -> float:
    """Seconds of one epoch in which the share `missing` of reads goes to the shared file system.

    What was missing is stored on `fills` nodes on the way (0: nowhere).
    """
    batches = math.ceil(job.files / job.batch)
    each = round(job.batch / job.nodes)
    away = 1 - 1 / job.nodes
    cached = job.file_size * ((1 - away) / job.local + away / min(job.local, job.network))
    misses = rng.binomial(each, missing, size=(batches, job.nodes))
    at_once = misses.sum(axis=1, keepdims=True)  # all that read at the same time share the rate
    transfer = job.file_size * np.maximum(at_once / job.shared, 1 / job.network)
    store = max(0, fills - 1) * job.file_size / min(job.local, job.network)
    slowest = _slowest(job, np.maximum(misses, 1), rng)
    waits = np.maximum(slowest, misses / job.readers * job.shared_latency)
    reads = (each - misses) * cached + np.where(misses > 0, waits + transfer, 0)
    return float((each * job.compute + reads.max(axis=1) + store * (at_once > 0)[:, 0]).sum())


def _slowest(
    job: Training, reads: npt.NDArray[np.int64], rng: np.random.Generator
) -> npt.NDArray[np.float64]:
    """Draw the longest of each number of `reads` at once; waits are lognormal."""
    sigma = math.sqrt(math.log1p(job.spread**2))
    quantile = rng.random(reads.shape) ** (1 / reads)
    slowest = job.shared_latency * np.exp(sigma * ndtri(quantile) - sigma**2 / 2)
    return np.asarray(slowest)


@dataclass(frozen=True)
class TrainingRun:
    """One training: the seconds of its epochs in order, and of everything else."""

    epochs: tuple[float, ...]
    waiting: float
    wasted: float

    @property
    def total(self) -> float:
        """Seconds from start to end."""
        return sum(self.epochs) + self.waiting + self.wasted


def train(
    job: Training, policy: str, failures: list[float], rng: np.random.Generator
) -> TrainingRun:
    """Train once; `failures` are positions in epochs: 1.5 is the middle of the second."""
    if policy not in POLICIES:
        raise BadInput(f"unknown policy {policy!r}; use one of {', '.join(POLICIES)}")
    pending = [] if policy == "none" else sorted(failures)
    if len(pending) >= job.nodes:
        raise BadInput(f"{len(pending)} failures leave none of the {job.nodes} nodes; use fewer")
    if pending and not 0 <= pending[0] <= pending[-1] < job.epochs:
        raise BadInput(f"a failure is outside the {job.epochs} epochs; use positions below that")
    if policy == "abort":
        return _abort(job, pending, rng)
    lost, fresh = 0, 0.0  # nodes lost, and how many nodes' files are not yet cached again
    times, waiting, wasted = [], 0.0, 0.0
    fills = 2 if policy == "two copies" else 1
    for number in range(job.epochs):
        while True:
            live = replace(job, nodes=job.nodes - lost)
            missing = _missing(job, policy, number, lost, fresh)
            time = epoch(live, missing, rng, fills)
            if not (pending and pending[0] < number + 1):
                break
            # The epoch starts again without the node; what it had cached on the way stays cached.
            done = pending.pop(0) - number
            wasted += done * time
            waiting += job.detect + job.resume
            lost += 1
            fresh = fresh * (1 - done) + 1 if policy == "recache" else 0
        times.append(time)
        fresh = 0
    return TrainingRun(tuple(times), waiting, wasted)


def _missing(job: Training, policy: str, number: int, lost: float, fresh: float) -> float:
    if number == 0:
        return 1.0
    return {"redirect": lost, "recache": fresh}.get(policy, 0.0) / job.nodes


def _abort(job: Training, failures: list[float], rng: np.random.Generator) -> TrainingRun:
    """Start the whole job again after each failure, with a cold cache and a new node."""
    waiting = wasted = 0.0
    for position in failures:
        whole, part = divmod(position, 1)
        for number in range(int(whole)):
            wasted += epoch(job, 1.0 if number == 0 else 0.0, rng)
        wasted += part * epoch(job, 1.0 if whole == 0 else 0.0, rng)
        waiting += job.requeue
    times = [epoch(job, 1.0 if number == 0 else 0.0, rng) for number in range(job.epochs)]
    return TrainingRun(tuple(times), waiting, wasted)


def random_failures(count: int, epochs: int, rng: np.random.Generator) -> list[float]:
    """Return `count` positions after the first epoch, when everything is cached."""
    if count and epochs < 2:
        raise BadInput("failures come after the first epoch; train for at least two")
    return sorted(rng.uniform(1, epochs, count).tolist())


def mean_total(
    job: Training, policy: str, count: int, runs: int, rng: np.random.Generator
) -> Estimate:
    """Estimate the seconds of a training with `count` failures at random times."""
    totals = [
        train(job, policy, random_failures(count, job.epochs, rng), rng).total for _ in range(runs)
    ]
    error = float(np.std(totals, ddof=1)) / math.sqrt(runs) if runs > 1 else math.nan
    return Estimate(float(np.mean(totals)), error)
