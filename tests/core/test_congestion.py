"""The congestion control of connections between agents and programs."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import holdfast
from holdfast.errors import BadInput

_SYSTEM = Path("/proc/sys/net/ipv4/tcp_congestion_control")


def _controls(cluster: holdfast.LocalCluster) -> set[str]:
    """Return the controls of all connections to agents, of both sides."""
    ports = [node.member.address.rpartition(":")[2] for node in cluster.nodes]
    ends = " or ".join(f"sport = :{port} or dport = :{port}" for port in ports)
    shown = subprocess.run(
        ["ss", "-Htin", "state", "established", f"( {ends} )"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return {line.split()[0] for line in shown.splitlines() if line.startswith("\t")}


@pytest.mark.parametrize(("setting", "expected"), [("reno", "reno"), ("system", None)])
def test_connections_have_the_control_that_is_set(setting: str, expected: str | None) -> None:
    wanted = expected or _SYSTEM.read_text().strip()
    with holdfast.local_cluster(nodes=2, congestion=setting) as cluster:
        job = cluster.connect()
        job.objects.put("key", b"x" * 100_000, copies=2)  # from agent to agent, over TCP
        assert _controls(cluster) == {wanted}
        for node in cluster.nodes:
            assert f"TCP congestion control: {wanted}\n" in node.log.read_text()


def test_a_control_that_does_not_exist_is_refused_with_those_that_do() -> None:
    with pytest.raises(BadInput, match=r"'nosuch'; use auto, system or one of: .*reno"):
        holdfast.local_cluster(nodes=1, congestion="nosuch").__enter__()
