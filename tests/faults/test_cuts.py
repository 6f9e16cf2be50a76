"""Agents with networks of their own: cut off from each other, not from their clients."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from conftest import needs_networks

import holdfast
from holdfast import _core, errors
from holdfast.cluster.networks import Networks

pytestmark = needs_networks


@pytest.fixture
def agents(three: Networks) -> Iterator[holdfast.LocalCluster]:
    with holdfast.local_cluster(nodes=3, networks=three, memory="64 MiB") as cluster:
        yield cluster


def test_agents_listen_in_networks_of_their_own(
    three: Networks, agents: holdfast.LocalCluster
) -> None:
    addresses = [member.address for member in (node.member for node in agents.nodes)]
    assert [address.split(":")[1] for address in addresses] == [
        three.address(node) for node in range(3)
    ]
    with agents.connect() as job:
        job.objects.put("key", b"bytes", copies=3)
        assert job.objects.get("key") == b"bytes"


def test_a_cut_pair_cannot_copy_from_one_another_and_a_client_still_reaches_both(
    three: Networks, agents: holdfast.LocalCluster
) -> None:
    first, second, third = (node.member for node in agents.nodes)
    client = _core.Client(bytes.fromhex((agents.directory / "key").read_text()))
    data = b"x" * 200_000
    client.put([first.address], b"key", data, _core.Tier.MEMORY, deadline=5.0)
    three.cut(0, 1)
    three.cut(1, 0)
    with pytest.raises(errors.TryAgain):
        client.pull(second.address, b"key", first.address, deadline=0.5)
    client.pull(third.address, b"key", first.address, deadline=5.0)
    client.pull(second.address, b"key", third.address, deadline=5.0)
    assert client.get(first.address, b"key", deadline=5.0) == data
    assert client.get(second.address, b"key", deadline=5.0) == data
    three.heal()
    client.drop(second.address, b"key", deadline=5.0)
    client.pull(second.address, b"key", first.address, deadline=10.0)
    client.close()


def test_a_restarted_agent_is_in_the_network_of_its_node(
    three: Networks, agents: holdfast.LocalCluster
) -> None:
    agents.kill(1)
    agents.restart(1)
    member = agents.nodes[1].member
    assert member is not None
    assert member.address.split(":")[1] == three.address(1)
    with agents.connect() as job:
        job.objects.put("key", b"bytes", copies=3)
