"""An agent dies or stops at each stage of an operation: what was acknowledged stays whole."""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from retried import get, put
from support.waits import wait_for

import holdfast
from holdfast import errors
from holdfast.testing.fault_targets import FaultTargets
from holdfast.testing.faults import Faults
from holdfast.testing.injector import inject

SMALL, BIG = 1000, 8 << 20
ACTIONS = ["kill", "stop"]


def plan(action: str, node: int, at: str, after: int = 1) -> Faults:
    """Hurt a node at a stage, and mend it."""
    if action == "kill":
        return Faults().kill(node, at=at, after=after).restart(node)
    return Faults().stop(node, at=at, after=after).wait(0.3).resume(node)


def key_owned(job: holdfast.Job, *nodes: int) -> str:
    """A key whose first owners are these nodes."""
    for number in itertools.count():
        key = f"key-{number}"
        owners = job._connection.routing.owners.of(key.encode(), len(nodes))
        if [member.node for member in owners] == [f"node-{node}" for node in nodes]:
            return key
    raise AssertionError


@pytest.fixture
def cluster() -> Iterator[holdfast.LocalCluster]:
    """Four agents, what is left of whom can be looked at when they are dead."""
    settings = {"memory": "512 MiB", "disk": "512 MiB", "huge_pages": "off"}
    with holdfast.local_cluster(nodes=4, **settings) as agents:
        yield agents


class Files:
    """The sizes of the files in a node's memory tier at the moment when a fault went off.

    They tell, whatever the agent and the injector believe, how far an operation had come.
    """

    def __init__(self, cluster: holdfast.LocalCluster, node: int) -> None:
        self._directory = Path(cluster.nodes[node].tiers.memory_dir)
        self.sizes: list[int] = []

    def look(self) -> None:
        self.sizes = sorted(path.stat().st_size for path in self._directory.iterdir())


@pytest.fixture
def seen(cluster: holdfast.LocalCluster, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], Files]:
    """Files of a node, looked at just before the node is mended."""
    watched: dict[int, Files] = {}

    def look_before(name: str) -> None:
        method = getattr(FaultTargets, name)

        def looked(self: FaultTargets, node: int) -> None:
            if node in watched:
                watched[node].look()
            method(self, node)

        monkeypatch.setattr(FaultTargets, name, looked)

    look_before("restart")
    look_before("resume")

    def watch(node: int) -> Files:
        return watched.setdefault(node, Files(cluster, node))

    return watch


@pytest.mark.parametrize(
    ("action", "size", "victim"),
    [("kill", SMALL, 2), ("kill", BIG, 3), ("stop", BIG, 2), ("stop", SMALL, 3)],
)
def test_put_when_the_bytes_are_there_and_not_committed(
    cluster: holdfast.LocalCluster,
    job: holdfast.Job,
    seen: Callable[[int], Files],
    action: str,
    size: int,
    victim: int,
) -> None:
    key, data = key_owned(job, 2, 3), os.urandom(size)
    files = seen(victim)
    with inject(plan(action, victim, "put"), cluster) as report:
        put(job, key, data)
    assert report.stages["put"] == 1
    assert files.sizes == ([BIG] if size == BIG else [])
    assert get(job, key) == data


@pytest.mark.parametrize(
    ("action", "size", "after"),
    [("kill", SMALL, 1), ("kill", BIG, 3), ("stop", BIG, 1), ("stop", SMALL, 1)],
)
def test_chain_when_the_bytes_are_being_passed_on(
    cluster: holdfast.LocalCluster,
    job: holdfast.Job,
    seen: Callable[[int], Files],
    action: str,
    size: int,
    after: int,
) -> None:
    key, data = key_owned(job, 2, 3), os.urandom(size)
    files = seen(2)
    with inject(plan(action, 2, "chain", after), cluster) as report:
        put(job, key, data)
    assert report.stages["chain"] == 1
    if size == BIG:
        assert 0 < files.sizes[0] < BIG
    assert get(job, key) == data


@pytest.mark.parametrize(
    ("action", "size", "after"),
    [("kill", SMALL, 1), ("kill", BIG, 3), ("stop", BIG, 1), ("stop", SMALL, 1)],
)
def test_get_when_bytes_are_being_sent(
    cluster: holdfast.LocalCluster, job: holdfast.Job, action: str, size: int, after: int
) -> None:
    key, data = key_owned(job, 2, 3), os.urandom(size)
    put(job, key, data)
    with inject(plan(action, 2, "get", after), cluster) as report:
        assert get(job, key) == data
    assert report.stages["get"] == 1
    assert get(job, key) == data


@pytest.mark.parametrize(("action", "after"), [("kill", 3), ("stop", 1)])
def test_pull_when_a_copy_is_being_received(
    cluster: holdfast.LocalCluster,
    job: holdfast.Job,
    seen: Callable[[int], Files],
    action: str,
    after: int,
) -> None:
    key, data = key_owned(job, 2, 3, 0), os.urandom(BIG)
    put(job, key, data)
    files = seen(0)
    with inject(plan(action, 0, "pull", after), cluster) as report:
        cluster.kill(3)  # its copy is restored at node 0
        wait_for(lambda: files.sizes)
    assert report.stages["pull"] == 1
    assert files.sizes[0] < BIG
    assert get(job, key) == data


@pytest.mark.parametrize("action", ACTIONS)
def test_drop_when_it_is_remembered_and_not_done(
    cluster: holdfast.LocalCluster,
    job: holdfast.Job,
    seen: Callable[[int], Files],
    action: str,
) -> None:
    key = key_owned(job, 2, 3)
    put(job, key, os.urandom(BIG))
    files = seen(3)
    with inject(plan(action, 3, "drop"), cluster) as report:
        drop(job, key)
    assert report.stages["drop"] == 1
    assert files.sizes == [BIG]
    with pytest.raises((errors.NotFound, errors.Unavailable)):
        job.objects.get(key)


def drop(job: holdfast.Job, key: str) -> None:
    """Drop until no node can have it any more."""
    end = time.monotonic() + 30
    while True:
        try:
            return job.objects.drop(key)
        except errors.NotFound:
            return None
        except errors.TryAgain:
            assert time.monotonic() < end, "it was never dropped"


TIMERS = {"probe_period": "0.1 s", "partition_wait": "0.5 s", "memory": "256 MiB"}


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("stage", ["restore", "trim"])
def test_restore_and_trim_when_another_agent_leaves_and_returns(stage: str, action: str) -> None:
    hurt, mend = (Faults.kill, Faults.restart) if action == "kill" else (Faults.stop, Faults.resume)
    if stage == "restore":  # while node 2 is away
        steps = mend(hurt(Faults(), 1, at=stage).stop(2), 1).resume(2)
    else:  # when it is back
        steps = mend(hurt(Faults().stop(2).settle(), 1, at=stage).resume(2), 1)
    with holdfast.local_cluster(nodes=4, **TIMERS) as cluster, cluster.connect() as job:
        objects = {f"key-{number}": os.urandom(2000) for number in range(60)}
        for key, data in objects.items():
            job.objects.put(key, data, copies=2)
        report = inject(steps.settle(), cluster, fire_within="30 s").run()
        assert report.stages[stage] == 1
        for key, data in objects.items():
            assert get(job, key) == data
            assert holders(job, key) >= 2


def holders(job: holdfast.Job, key: str) -> int:
    """How many nodes have a copy."""
    found = 0
    job._connection.refresh()
    for member in job._connection.routing.live:
        with contextlib.suppress(errors.NotFound):
            job._connection.client.stat(member.address, key.encode(), deadline=5.0)
            found += 1
    return found


def test_what_does_not_happen_is_disarmed(
    cluster: holdfast.LocalCluster, job: holdfast.Job
) -> None:
    with inject(Faults().kill(1, at="trim"), cluster, fire_within=0.1) as report:
        put(job, "key", b"bytes")
    assert report.stages["trim"] == 0
    assert report.missed == ["kill(node=1, at='trim')"]
    assert cluster.nodes[1].alive
    put(job, "other", b"bytes")
