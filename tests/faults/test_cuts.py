"""Agents with networks of their own: cut off from each other, not from their clients."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from retried import get, put
from support.requirements import needs_networks

import holdfast
from holdfast import errors
from holdfast.client.contacts import Contacts
from holdfast.client.survey import survey
from holdfast.launch.networks import Networks
from holdfast.membership.view import Member
from holdfast.testing.faults import Faults
from holdfast.testing.injector import inject

pytestmark = needs_networks

TIMERS = {"probe_period": "0.1 s", "partition_wait": "0.5 s"}


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


def test_a_cut_pair_passes_nothing_on_and_a_client_still_reaches_both(
    three: Networks, agents: holdfast.LocalCluster
) -> None:
    first, second, third = (node.member for node in agents.nodes)
    data = b"x" * 200_000
    with agents.connect() as job:
        client = job._connection.client

        def pass_on(key: str, chain: list[Member], deadline: float) -> None:
            addresses = [member.address for member in chain]
            numbers = [member.number for member in chain]
            client.put(addresses, numbers, key.encode(), data, deadline=deadline)

        job.objects.put(key_owned(job, first, third), data, copies=2)
        three.cut(0, 1)
        three.cut(1, 0)
        with pytest.raises(errors.TryAgain):
            pass_on(key_owned(job, second, first), [second, first], deadline=0.5)
        pass_on(key_owned(job, second, third), [second, third], deadline=5.0)
        for member in (first, third):
            key = key_owned(job, first, third).encode()
            assert client.get(member.address, key, deadline=5.0) == data
        three.heal()
        pass_on(key_owned(job, second, first), [second, first], deadline=10.0)


def key_owned(job: holdfast.Job, *chain: Member) -> str:
    """A key with these owners, in this order."""
    owners = job._connection.routing.owners
    wanted = [member.node for member in chain]
    return next(
        key
        for key in map(str, range(1000))
        if [member.node for member in owners.of(key.encode(), len(chain))] == wanted
    )


def test_rule_10_both_sides_of_a_cut_read_and_put_and_healing_is_a_union(three: Networks) -> None:
    with holdfast.local_cluster(nodes=3, networks=three, memory="64 MiB", **TIMERS) as agents:
        with agents.connect() as job:
            for key in ("before", "dropped"):
                job.objects.put(key, b"bytes of " + key.encode(), copies=3)
        inject(Faults().cut(0, (1, 2)).settle(), agents).run()
        with agents.connect(0) as left, agents.connect(1) as right:
            assert left.nodes == ["node-0"]
            assert right.nodes == ["node-1", "node-2"]
            left.objects.put("left", b"bytes of left", copies=1)
            right.objects.put("right", b"bytes of right", copies=2)
            right.objects.drop("dropped")
            for job in (left, right):
                assert job.objects.get("before") == b"bytes of before"
            assert left.objects.get("dropped") == b"bytes of dropped"  # it cannot know
            with pytest.raises(errors.Unavailable, match=r"node-1 \(lost\), node-2 \(lost\)"):
                left.objects.get("right")
        inject(Faults().heal().settle(), agents).run()
        for node in range(3):
            with agents.connect(node) as job:
                assert job.nodes == ["node-0", "node-1", "node-2"]
                for key in ("before", "left", "right"):
                    assert get(job, key) == b"bytes of " + key.encode()
                wait_until_dropped(job, "dropped")


def wait_until_dropped(job: holdfast.Job, key: str) -> None:
    """Wait until the node that we go through has heard of the drop."""
    end = time.monotonic() + 30
    while True:
        try:
            job.objects.get(key)
        except errors.Dropped:
            return
        assert time.monotonic() < end, "it is still there"


def test_a_lossy_and_slow_network_costs_time_and_nothing_else(three: Networks) -> None:
    plan = Faults().lose(0, 1, 0.1).delay(2, "20 ms").wait("1 s").heal().settle()
    with (
        holdfast.local_cluster(nodes=3, networks=three, memory="64 MiB", **TIMERS) as agents,
        agents.connect() as job,
    ):
        with inject(plan, agents) as report:
            objects = {f"key-{number}": bytes([number]) * 5000 for number in range(20)}
            for key, data in objects.items():
                put(job, key, data, copies=3)
        assert not report.missed
        for key, data in objects.items():
            assert get(job, key) == data


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


def test_other_bytes_on_both_sides_of_a_cut_one_wins_everywhere_and_the_other_is_kept(
    three: Networks,
) -> None:
    with holdfast.local_cluster(nodes=3, networks=three, memory="64 MiB", **TIMERS) as agents:
        inject(Faults().cut(0, (1, 2)).settle(), agents).run()
        keys = [f"k{number}" for number in range(6)]
        with agents.connect(0) as left, agents.connect(1) as right:
            for key in keys:
                left.objects.put(key, b"left of " + key.encode(), copies=1)
                right.objects.put(key, b"right of " + key.encode(), copies=2)
        inject(Faults().heal().settle(), agents).run()
        jobs = [agents.connect(node) for node in range(3)]

        def answers(key: str) -> list[bytes]:
            return [job.objects.get(key) for job in jobs]

        def settled() -> bool:
            aside = [info.key for info in jobs[0].objects.list("holdfast.conflict/")]
            return len(aside) == len(keys) and all(len(set(answers(key))) == 1 for key in keys)

        end = time.monotonic() + 60
        while not settled():
            assert time.monotonic() < end, "it did not happen"
            time.sleep(0.1)
        for key in keys:
            assert set(answers(key)) == {b"right of " + key.encode()}  # the larger one
        for info in jobs[0].objects.list("holdfast.conflict/"):
            key = info.key.rpartition("/")[2]
            assert answers(info.key) == [b"left of " + key.encode()] * 3
            assert info.key.startswith("holdfast.conflict/10-")
        with pytest.raises(errors.KeyExists):
            jobs[0].objects.put("k0", b"left of k0", copies=2)
        contacts = Contacts(agents.directory, 5.0)
        report = survey(contacts)
        contacts.client.close()
        assert report.conflicts == len(keys) == len(report.set_aside)
        for job in jobs:
            job.close()
