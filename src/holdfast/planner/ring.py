"""Who takes over when a node leaves the hash ring: the experiment of FT-Cache, figure 6(b).

A ring whose labels are told apart and hashed well puts every virtual node at a uniform random
place; so does the default here (a test ties it to `holdfast.placement`). `joined` labels
("server1" + "10" = "server11" + "0") and a weak hash are there to show what they do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .._core import xxh3_64
from ..errors import BadInput

_SPAN = 2**64
#: Rings that share the trials: the victims differ from trial to trial, the ring every so often.
_RINGS = 5


@dataclass(frozen=True)
class RingSetting:
    """One experiment: `files` cached on `nodes`, each at `virtual_nodes` places of the ring."""

    nodes: int
    virtual_nodes: int
    files: int
    labels: str = "apart"
    label_hash: str = "xxh3"

    def __post_init__(self) -> None:
        for what, value, least in (
            ("nodes", self.nodes, 2),
            ("virtual nodes", self.virtual_nodes, 1),
            ("files", self.files, 1),
        ):
            if value < least:
                raise BadInput(f"{value} {what} on the ring; use at least {least}")
        if self.labels not in ("apart", "joined"):
            raise BadInput(f"unknown labels {self.labels!r}; use apart or joined")
        if self.label_hash not in _HASHES:
            raise BadInput(f"unknown hash {self.label_hash!r}; use {' or '.join(_HASHES)}")

    @property
    def random(self) -> bool:
        """Whether places are as good as random, so that no label needs to be hashed."""
        return self.labels == "apart" and self.label_hash == "xxh3"


def _fnv1a32(label: bytes) -> int:
    """FNV-1a of 32 bits: labels that differ in the last digit land at a fixed distance."""
    value = 2166136261
    for byte in label:
        value = ((value ^ byte) * 16777619) & 0xFFFFFFFF
    return value << 32


_HASHES: dict[str, Callable[[bytes], int]] = {"xxh3": xxh3_64, "fnv1a": _fnv1a32}


@dataclass(frozen=True, kw_only=True)
class Takeover:
    """What trials of one setting saw; arrays have an entry per trial.

    `receivers` got at least one file, `neighbours` follow the victim on the ring whether or not a
    file lay between; `most` is how many of the lost files the node that received most got.
    """

    setting: RingSetting
    receivers: npt.NDArray[np.int64]
    neighbours: npt.NDArray[np.int64]
    per_receiver: npt.NDArray[np.float64]
    most: npt.NDArray[np.int64]
    busiest: float
    idlest: float


class _Ring:
    """Sorted places with their owners, and how many files lie before each."""

    def __init__(self, setting: RingSetting, rng: np.random.Generator) -> None:
        self.setting = setting
        if setting.random:
            count = setting.nodes * setting.virtual_nodes
            places = rng.integers(0, _SPAN, count, dtype=np.uint64)
            owners = np.repeat(np.arange(setting.nodes), setting.virtual_nodes)
            self.labels: npt.NDArray[np.uint64] | None = None
        else:
            places, owners = self._labelled()
        order = np.argsort(places, kind="stable")
        self.places, self.owners = places[order], owners[order]
        files = np.sort(rng.integers(0, _SPAN, setting.files, dtype=np.uint64))
        until = np.searchsorted(files, self.places, side="right")
        self.files = np.diff(until, prepend=0)
        self.files[0] += setting.files - until[-1]  # beyond the last place: the first owner again

    def _labelled(self) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
        """Hash real labels; of equal ones the last node added has the place, as in a map."""
        hashed = _HASHES[self.setting.label_hash]
        between = ":" if self.setting.labels == "apart" else ""
        numbers = range(self.setting.virtual_nodes)
        labels = [
            [hashed(f"server{node}{between}{number}".encode()) for number in numbers]
            for node in range(1, self.setting.nodes + 1)
        ]
        self.labels = np.array(labels, dtype=np.uint64)
        owner = {place: node for node, places in enumerate(labels) for place in places}
        return (
            np.fromiter(owner.keys(), np.uint64, len(owner)),
            np.fromiter(owner.values(), np.int64, len(owner)),
        )

    def take_over(self, victim: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return the nodes that follow each place of `victim`, and the files they take over."""
        gone = self.owners == victim
        mine = np.flatnonzero(gone)
        if self.labels is not None:  # removing a node removes its labels, whoever has the place
            gone = gone | np.isin(self.places, self.labels[victim])
        heir = (mine + 1) % len(self.owners)
        while (still := gone[heir]).any():
            heir[still] = (heir[still] + 1) % len(self.owners)
        return self.owners[heir], self.files[mine]


def simulate(setting: RingSetting, trials: int, rng: np.random.Generator) -> Takeover:
    """Fail one random node `trials` times."""
    seen: list[tuple[int, int, float, int]] = []
    busiest, idlest = [], []
    rings = min(_RINGS, trials) if setting.random else 1
    for share in np.array_split(np.arange(trials), rings):
        ring = _Ring(setting, rng)
        load = np.bincount(ring.owners, weights=ring.files, minlength=setting.nodes)
        busiest.append(load.max() / load.mean())
        idlest.append(load.min() / load.mean())
        for victim in rng.integers(0, setting.nodes, len(share)):
            heirs, files = ring.take_over(int(victim))
            got = np.bincount(heirs, weights=files, minlength=setting.nodes)
            receivers = int(np.count_nonzero(got))
            lost = int(files.sum())
            mean = lost / receivers if receivers else 0.0
            seen.append((receivers, len(np.unique(heirs)), mean, int(got.max())))
    columns = [np.array(column) for column in zip(*seen, strict=True)]
    return Takeover(
        setting=setting,
        receivers=columns[0],
        neighbours=columns[1],
        per_receiver=columns[2],
        most=columns[3],
        busiest=float(np.mean(busiest)),
        idlest=float(np.mean(idlest)),
    )


def expected_receivers(setting: RingSetting) -> float:
    """Mean number of nodes that receive a file, for good labels.

    A file per arc is 1 : m against none, m being the mean files per arc; arcs with files then
    fall on the other nodes like balls into bins.
    """
    mean = setting.files / (setting.nodes * setting.virtual_nodes)
    arcs = setting.virtual_nodes * mean / (1 + mean)
    others = setting.nodes - 1
    return float(-others * np.expm1(arcs * np.log1p(-1 / others))) if others > 1 else 1.0


def memory(setting: RingSetting) -> int:
    """Bytes that a ring of this size takes in every process that holds one."""
    return setting.nodes * setting.virtual_nodes * (8 + 4)  # position and owner


def enough(results: list[Takeover], slack: float) -> Takeover:
    """Return the fewest virtual nodes whose busiest node has at most `slack` more than the best."""
    best = min(result.busiest for result in results)
    ordered = sorted(results, key=lambda result: result.setting.virtual_nodes)
    return next(result for result in ordered if result.busiest <= (1 + slack) * best)
