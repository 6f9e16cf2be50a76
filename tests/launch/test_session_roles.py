"""Roles of the nodes of a session on this machine, as its user asks for them and sees them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from programs import holdfast
from support.commands import HOLDFAST, run_in
from support.waits import wait_for

from holdfast import config, connect
from holdfast.errors import BadInput, NotEnoughNodes
from holdfast.job import local_cluster
from holdfast.session import processes
from holdfast.session import session as sessions


@pytest.fixture
def session() -> Iterator[None]:
    holdfast("up", "--nodes", "4", HOLDFAST_STAGING="1", HOLDFAST_SPARES="1")
    yield
    subprocess.run([HOLDFAST, "down"], capture_output=True, timeout=60)


def nodes() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(holdfast("status", "--json"))["nodes"]
    return found


def roles() -> list[str]:
    return [node["role"] for node in nodes()]


def objects() -> list[int]:
    return [sum(tier["objects"] for tier in node["tiers"].values()) for node in nodes()]


def kill(*names: str) -> None:
    agents = sessions.agents(sessions.directory(config.load().config))
    victims = [agent.process for agent in agents if agent.member.node in names]
    assert len(victims) == len(names)
    for victim in victims:
        os.kill(victim.pid, signal.SIGKILL)
    assert processes.wait(victims, 10)


def test_a_spare_owns_nothing_whoever_dies(session: None) -> None:
    said = holdfast("status")
    assert "Staging nodes: node-2.\nSpares, which own no objects: node-3.\n" in said
    with connect(node="node-3") as job:
        for number in range(40):
            job.objects.put(f"key-{number}", b"x" * 1000, copies=2)
        with pytest.raises(NotEnoughNodes, match=r"only 3 of 3 are alive \(spares own nothing\)"):
            job.objects.put("four", b"x", copies=4)
    held = objects()
    assert held[3] == 0
    assert all(held[:3]), "staging nodes own what compute nodes do"
    assert sum(held) == 80

    kill("node-0")
    wait_for(lambda: sum(objects()) == 80, "the copies of node-0 come back")
    assert objects()[3] == 0
    with connect(node="node-3") as job:
        assert all(job.objects.get(f"key-{number}") == b"x" * 1000 for number in range(40))


def test_a_node_that_is_brought_back_has_its_role_and_a_new_one_is_a_compute_node(
    session: None,
) -> None:
    before = ["compute", "compute", "staging", "spare"]
    assert roles() == before
    kill("node-1", "node-2", "node-3")
    assert "started node-1, node-2, node-3." in holdfast("up", "--missing", HOLDFAST_SPARES="2")
    assert roles() == before
    kill("node-3")
    assert "started node-3, node-4." in holdfast("up", "--missing", "--nodes", "5")
    assert roles() == [*before, "compute"]
    error = holdfast("up", "--missing", "--spares", "1", code=2)
    assert error == "holdfast: --spares cannot be combined with --missing; leave it out\n"


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (["--staging", "2", "--spares", "1"], "the session has 2 nodes, too few for 2 staging"),
        (["--spares", "-1"], "spares (from --spares): -1 is not between 0 and 65535"),
        (["--set", "role=spare"], "--set role sets 'role', which is now 'staging' and 'spares'"),
    ],
)
def test_mistakes(asked: list[str], message: str) -> None:
    error = holdfast("up", "--nodes", "2", *asked, code=2)
    assert error.startswith(f"holdfast: {message}")
    assert error.count("\n") == 1
    assert not sessions.directory(config.load().config).exists()


def test_a_local_cluster_has_roles_also_after_a_restart() -> None:
    with local_cluster(nodes=3, staging=1, spares=1, memory="16 MiB", disk="16 MiB") as cluster:
        cluster.kill(2)
        cluster.restart(2)
        said = run_in(cluster.directory, HOLDFAST, "status").stdout
        assert "All objects have the requested number of copies." in said, (
            "nothing went with a spare"
        )
        cluster.kill(1)
        cluster.restart(1)
        assert [node.member.role for node in cluster.nodes] == ["compute", "staging", "spare"]
    with pytest.raises(BadInput, match="no node would be left to store"):
        local_cluster(nodes=1, spares=1)
