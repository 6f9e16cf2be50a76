"""A refresh reaches every node that any other node reaches, however it gets there."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from support.commands import HOLDFAST, run_in
from support.requirements import needs_networks
from support.waits import wait_for

import holdfast
from holdfast.files.refresh import Refresh
from holdfast.launch.networks import Networks

pytestmark = needs_networks

NODES = 4
NAMES = [f"{number:02}" for number in range(16)]
SETTINGS = {
    "probe_period": "0.1 s",
    "file_settled": "0 s",
    "file_tier": "memory",
    "memory": "64 MiB",
}
WITHIN = 30.0


@pytest.fixture
def four() -> Iterator[Networks]:
    """Four nodes with networks of their own."""
    with Networks.make(NODES) as made:
        yield made


@pytest.fixture
def agents(four: Networks) -> Iterator[holdfast.LocalCluster]:
    with holdfast.local_cluster(nodes=NODES, networks=four, **SETTINGS) as cluster:
        yield cluster


@pytest.fixture
def root(tmp_path: Path, agents: holdfast.LocalCluster) -> Path:
    """Files that all nodes have read, replaced since, while nodes 0 and 1 lost each other."""
    directory = tmp_path / "root"
    directory.mkdir()
    write(directory, "old")
    assert read(agents, directory) == [{"old"}] * NODES
    write(directory, "new")
    assert read(agents, directory) == [{"old"}] * NODES
    networks = agents.networks
    assert networks is not None
    networks.cut(0, 1)
    networks.cut(1, 0)
    return directory


def write(root: Path, text: str) -> None:
    for name in NAMES:
        (root / "made").write_text(f"{text} {name}")
        (root / "made").replace(root / name)


def read(cluster: holdfast.LocalCluster, root: Path) -> list[set[str]]:
    """What each node has of all files: of which version they are."""
    seen = []
    for node in range(NODES):
        with cluster.connect(node) as job:
            files = job.files(root)
            seen.append({files.read(name).decode().split()[0] for name in NAMES})
    return seen


def refresh(
    cluster: holdfast.LocalCluster, four: Networks, root: Path
) -> subprocess.CompletedProcess[str]:
    """Run the command on node 0."""
    command = (*four.under(0), HOLDFAST, "refresh", root)
    return run_in(cluster.directory, *command, within=WITHIN, HOLDFAST_NODE="node-0")


def test_a_node_that_the_command_cannot_reach_is_told_by_another(
    agents: holdfast.LocalCluster, four: Networks, root: Path
) -> None:
    done = refresh(agents, four, root)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"Refreshed {root} on {NODES} nodes.\n"
    assert read(agents, root) == [{"new"}] * NODES
    four.heal()
    assert read(agents, root) == [{"new"}] * NODES


def test_whoever_was_not_told_learns_of_it_from_the_others(
    agents: holdfast.LocalCluster, root: Path
) -> None:
    """As after a command that was killed before it had told everybody."""
    message = msgspec.msgpack.encode(Refresh([os.fsencode(root)], 7))
    with agents.connect() as job:
        for node in (0, 2, 3):
            job._connection.client.wait(
                agents.nodes[node].member.address, "files", "refresh", message
            ).result()
    wait_for(lambda: read(agents, root) == [{"new"}] * NODES, "node 1 was never told")


def test_a_node_that_nobody_reaches_is_named_or_looks_again(
    agents: holdfast.LocalCluster, four: Networks, root: Path
) -> None:
    agents.stop(1)
    try:
        done = refresh(agents, four, root)
    finally:
        agents.resume(1)
    four.heal()
    if done.returncode != 0:  # it was not taken for dead yet
        assert done.returncode == 5
        assert "node-1" in done.stderr
        done = refresh(agents, four, root)
        assert (done.returncode, done.stderr) == (0, "")
    else:
        assert done.stdout == f"Refreshed {root} on {NODES - 1} nodes.\n"
    wait_for(lambda: read(agents, root) == [{"new"}] * NODES, "node 1 has old files")
