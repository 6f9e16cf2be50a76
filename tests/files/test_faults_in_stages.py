"""Agents that die or stop in the middle of a fill, a fetch, an answer or an eviction."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from epochs import epoch
from support.counters import nodes_of
from support.settings import SETTINGS
from support.waits import wait_for

import holdfast
from holdfast.client.fault_points import Action, FaultPoint, Stage, arm
from holdfast.testing.countfs import CountingFS

READER, OWNER = 0, 2


def armed(cluster: holdfast.LocalCluster, node: int, stage: Stage, action: Action) -> None:
    with cluster.connect(node) as job:
        member = cluster.nodes[node].member
        arm(job._connection.client, member.socket, FaultPoint(stage, action), deadline=5.0)


def went_off(cluster: holdfast.LocalCluster, node: int) -> bool:
    """Whether the agent died, or stands still."""
    agent = cluster.nodes[node]
    if not agent.alive:
        return True
    return Path(f"/proc/{agent.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] in "TZX"


@contextmanager
def mended(cluster: holdfast.LocalCluster, node: int) -> Iterator[None]:
    """Let an agent go on that was stopped."""
    try:
        yield
    finally:
        if cluster.nodes[node].alive:
            os.kill(cluster.nodes[node].pid, signal.SIGCONT)


@pytest.mark.parametrize("action", ["kill", "stop"])
@pytest.mark.parametrize("stage", ["fill", "get"])
def test_an_owner_that_fails_in_a_fill_or_an_answer_costs_no_byte_and_the_storage_is_spared(
    cluster: holdfast.LocalCluster,
    job: holdfast.Job,
    storage: CountingFS,
    data: dict[str, bytes],
    stage: Stage,
    action: Action,
) -> None:
    files = job.files(storage.at)
    if stage == "get":
        epoch(files, data)  # so that there is something to answer with
    armed(cluster, OWNER, stage, action)
    with mended(cluster, OWNER):
        epoch(files, data)
        assert went_off(cluster, OWNER)
        # Whoever takes over reads each file once, and the owner at most what it had begun.
        for number in range(len(cluster.nodes)):
            assert all(opens == 1 for opens in storage.opens(number).values())
        epoch(files, data)  # with what it had served before
        storage.reset()
        epoch(files, data)
        assert storage.opens() == {}


@pytest.mark.parametrize("action", ["kill", "stop"])
def test_an_own_agent_that_fails_in_a_fetch_leaves_the_program_another_way(
    cluster: holdfast.LocalCluster,
    job: holdfast.Job,
    storage: CountingFS,
    data: dict[str, bytes],
    action: Action,
) -> None:
    files = job.files(storage.at)
    epoch(files, data)
    armed(cluster, READER, "fetch", action)
    with mended(cluster, READER):
        for name, content in data.items():
            with files.open(name) as file:
                assert file.read() == content, name
        assert went_off(cluster, READER)


@pytest.mark.parametrize("action", ["kill", "stop"])
def test_an_agent_that_fails_in_an_eviction_costs_no_byte(
    storage: CountingFS, data: dict[str, bytes], action: Action
) -> None:
    evicts = 1
    small = {**SETTINGS, "memory": "1 MiB", "disk": "64 KiB", "file_largest": "1 MiB"}
    with (
        holdfast.local_cluster(nodes=2, storage=storage, **small) as cluster,
        cluster.connect() as job,
    ):
        files = job.files(storage.at)
        armed(cluster, evicts, "evict", action)
        with mended(cluster, evicts):
            for _ in range(3):
                epoch(files, data)
            assert went_off(cluster, evicts)
        if action == "stop":  # and what it had half removed is not missed
            wait_for(lambda: nodes_of(cluster)[f"node-{evicts}"].state == "alive")
            for _ in range(2):
                epoch(files, data)
            memory = nodes_of(cluster)[f"node-{evicts}"].tiers["memory"]
            assert memory["occupied"] + memory["reserved"] <= memory["capacity"]
