"""Headers and missing copies when nodes die and come, on real agents."""

from __future__ import annotations

import pytest
from healing import Inside, small_cluster
from support.waits import wait_for

import holdfast
from holdfast import errors
from holdfast.client.contacts import Contacts
from holdfast.client.survey import survey

HEADER = bytes(range(256)) * 4


def test_rule_8_a_copy_that_comes_back_has_its_header(
    five: holdfast.LocalCluster, inside: Inside
) -> None:
    with five.connect() as job:
        sizes = {"small": 1000, "large": 200_000}
        for key, size in sizes.items():
            job.objects.put(key, bytes(size), header=HEADER)
        old = inside.all_holders([*sizes])
        five.kill(int(old["small"][0].removeprefix("node-")))
        wait_for(lambda: all(len(held) == 2 for held in inside.all_holders([*sizes]).values()))
        new = inside.all_holders([*sizes])
        assert new["small"] != old["small"]
        by_name = {agent.member.node: agent.member for agent in five.nodes}
        for key, size in sizes.items():
            for node in new[key]:
                found = inside.client.stat(by_name[node].address, key.encode())
                assert (found.header, found.copies) == (HEADER, 2)
            with pytest.raises(errors.KeyExists):
                job.objects.put(key, bytes(size), header=HEADER[1:])
        assert [one.header for one in job.objects.list()] == [HEADER, HEADER]


def test_rule_5_fewer_nodes_will_do_and_those_that_come_get_their_copies(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOLDFAST_PARTITION_WAIT", "0.5 s")
    with small_cluster(3) as (cluster, job, inside):
        contacts = Contacts(cluster.directory, 5.0)
        for node in (1, 2):
            cluster.kill(node)
        wait_for(lambda: len(inside.view(0).live()) == 1)
        with pytest.raises(errors.NotEnoughNodes, match="1 of 3 are alive"):
            job.objects.put("strict", b"bytes", copies=3)
        job.objects.put("few", b"bytes", copies=3, or_fewer=True, header=b"header")
        job.objects.put("gone", b"bytes", copies=3, or_fewer=True)
        assert inside.holders("few") == ["node-0"]
        assert job.objects.stat("few").copies == 3
        assert survey(contacts).under_replicated == 0
        job.objects.drop("gone")
        for node in (1, 2):
            cluster.restart(node)
            # Through a client that has not heard of it: the agents tell it.
            job.objects.put(f"after-{node}", b"bytes", copies=3, or_fewer=True)
            wait_for(lambda node=node: len(inside.holders("few")) == node + 1)
            wait_for(lambda node=node: len(inside.holders(f"after-{node}")) == node + 1)
            wait_for(lambda: survey(contacts).under_replicated == 0)
        assert inside.holders("few") == ["node-0", "node-1", "node-2"]
        cluster.kill(0)
        with cluster.connect(node=1) as other:
            assert other.objects.get("few") == b"bytes"
            assert other.objects.stat("few").header == b"header"
            with pytest.raises(errors.Dropped):
                other.objects.get("gone")
            other.objects.drop("few")
            with pytest.raises(errors.Dropped):
                other.objects.get("few")
        contacts.client.close()
