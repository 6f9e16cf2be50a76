"""Epochs: owners that die or stop in the middle of one, and the second against the first."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from statistics import median
from time import perf_counter

import msgspec

from ...client.contacts import Contacts
from ...client.survey import NodeStatus, survey
from ...files import Files
from ...job import LocalCluster
from ..figures import Figure, at_least, at_most, exactly, shown
from ..membership.watch import wait_for
from . import dataset

_AGENTS = 4
_MANY = 8
_VICTIM = 2
_BEFORE = 3  # epochs without a failure, for comparison
#: Second copies are there after this many seconds, or the machine is too busy.
_SOON = 60.0


class _Cost(msgspec.Struct, frozen=True):
    seconds: float  # that the epoch took longer than others
    opens: int  # of the shared file system, in that epoch and two later ones
    lost: int  # files that the victim owned
    fullest: float  # bytes on the fullest node, of an even share


def run() -> list[Figure]:
    """Read the data set again and again."""
    return [*_failures(), *_second()]


def _failures() -> list[Figure]:
    """Let an owner fail in the middle of an epoch, in several ways."""
    killed = _cost(lambda cluster: cluster.kill(_VICTIM))
    stopped = _cost(lambda cluster: cluster.stop(_VICTIM))
    copied = _cost(lambda cluster: cluster.kill(_VICTIM), copies=2)
    row = _in_a_row()
    epoch = "200 MB data set: the epoch in which"
    return [
        at_most(f"{epoch} one of {_AGENTS} agents is killed", killed.seconds, 0.5, "s longer", ""),
        at_most(f"{epoch} one is stopped instead", stopped.seconds, 2, "s longer", ""),
        at_most(
            f"five deaths in a row on {_MANY} agents, the worst", max(row), 0.5, "s longer", ""
        ),
        exactly(
            "opens of the shared file system after the kill, recache",
            killed.opens,
            killed.lost,
            "opens",
        ),
        exactly(
            "opens of the shared file system after the kill, 2 copies", copied.opens, 0, "opens"
        ),
        at_most("bytes on the fullest node", killed.fullest, 1.6, "x an even share", ""),
        at_most("the same with 2 copies", copied.fullest, 1.6, "x an even share", ""),
    ]


def _cost(fail: Callable[[LocalCluster], None], copies: int = 1) -> _Cost:
    with dataset.shown(_AGENTS) as setup, setup.cluster.connect() as job:
        files = job.files(setup.storage.at, copies=copies)
        setup.dataset.epoch(files)
        lost = len(setup.storage.opens(_VICTIM))
        wait_for(
            lambda: (
                sum(node.files.files for node in _nodes(setup.cluster)) == copies * dataset.FILES
            ),
            perf_counter() + _SOON,
        )
        usual = median(setup.dataset.epoch(files) for _ in range(_BEFORE))
        held = [node.files.bytes for node in _nodes(setup.cluster)]
        setup.storage.reset()
        seconds = _failing(setup.dataset, files, lambda: fail(setup.cluster))
        for _ in range(2):
            setup.dataset.epoch(files)
        opens = setup.storage.total().opens
    share = dataset.FILES * dataset.SIZE * copies / _AGENTS
    return _Cost(seconds - usual, opens, lost, max(held) / share)


def _in_a_row() -> list[float]:
    """Kill five of eight agents, one in each epoch."""
    with dataset.shown(_MANY) as setup, setup.cluster.connect() as job:
        files = job.files(setup.storage.at)
        setup.dataset.epoch(files)
        usual = median(setup.dataset.epoch(files) for _ in range(_BEFORE))
        return [
            _failing(setup.dataset, files, partial(setup.cluster.kill, victim)) - usual
            for victim in range(1, 6)
        ]


def _failing(data: dataset.Dataset, files: Files, fail: Callable[[], None]) -> float:
    """Read the data set, with a failure in the middle; return the seconds."""
    middle = len(data.names) // 2
    seconds = data.read(files, data.names[:middle])
    fail()
    return seconds + data.read(files, data.names[middle:])


def _second() -> list[Figure]:
    """Read the data set twice, from a storage that is slow to open files."""
    with (
        dataset.shown(_AGENTS, open_delay="5 ms", bandwidth="200 MB/s") as setup,
        setup.cluster.connect() as job,
    ):
        files = job.files(setup.storage.at)
        first = setup.dataset.epoch(files)
        second = min(setup.dataset.epoch(files) for _ in range(3))
    what = f"{dataset.FILES:,} files of 100 KB, 5 ms per open and 200 MB/s, one reader"
    return [
        at_least(f"{what}: second epoch", first / second, 15, "x faster", "the first"),
        shown("files per second in the second epoch", dataset.FILES / second, "files/s"),
    ]


def _nodes(cluster: LocalCluster) -> list[NodeStatus]:
    contacts = Contacts(cluster.directory, cluster.config.deadline)
    try:
        return survey(contacts).nodes
    finally:
        contacts.client.close()
