"""Rules 2 to 10 of the design, on real agents that are really killed and stopped."""

from __future__ import annotations

import os
import subprocess
import threading
import time

import pytest
from healing import Inside, small_cluster
from support.commands import HOLDFAST
from support.waits import wait_for

import holdfast
from holdfast import errors
from holdfast.client.contacts import Contacts
from holdfast.client.survey import survey
from holdfast.membership.owners import Owners
from holdfast.membership.view import State

KEYS = [f"key-{number}" for number in range(40)]


def fill(job: holdfast.Job, copies: int = 2, size: int = 100_000) -> dict[str, bytes]:
    data = {key: os.urandom(size) for key in KEYS}
    for key, value in data.items():
        job.objects.put(key, value, copies=copies)
    return data


def test_rule_2_a_restart_is_a_new_member(five: holdfast.LocalCluster, inside: Inside) -> None:
    old = inside.member(1)
    five.kill(1)
    five.restart(1)
    new = inside.member(1)
    assert new.number != old.number
    for node in range(5):
        wait_for(lambda node=node: inside.view(node).node("node-1") == new)
        assert old in inside.view(node).lost()


def shown_status(cluster: holdfast.LocalCluster, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("HOLDFAST_RUN_DIR", str(cluster.directory.parent))
    command = [HOLDFAST, "status"]
    command += ["--session", cluster.directory.name]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=60)
    return " ".join(done.stdout.split())


def test_status_claims_nothing_of_what_had_one_copy_on_a_node_that_died(
    five: holdfast.LocalCluster, inside: Inside, monkeypatch: pytest.MonkeyPatch
) -> None:
    with five.connect() as job:
        fill(job, copies=1, size=1000)
    shown = shown_status(five, monkeypatch)
    assert "All objects have the requested number of copies." in shown
    assert "only copy" not in shown
    five.kill(1)
    wait_for(lambda: inside.view(0).lost())
    wait_for(lambda: inside.settled([0, 2, 3, 4]))
    for again in (True, False):
        shown = shown_status(five, monkeypatch)
        assert "All remaining objects have the requested number of copies." in shown
        assert "Objects with their only copy on node-1 may be lost." in shown
        if again:
            five.restart(1)  # it has nothing
            wait_for(lambda: inside.settled([0, 1, 2, 3, 4]))


def test_status_tells_of_deaths_that_may_have_cost_objects(
    five: holdfast.LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    with five.connect() as job:
        data = fill(job)
    contacts = Contacts(five.directory, 2.0)
    wait_for(lambda: not any(node.restoring.uncompared_peers for node in survey(contacts).nodes))
    assert survey(contacts).died_together == ()
    five.kill(1)
    five.kill(2)
    wait_for(lambda: survey(contacts).died_together == (("node-1", "node-2"),))
    shown = shown_status(five, monkeypatch)
    assert "node-1, node-2 died before" in shown
    assert "only copy" not in shown  # said with it
    with five.connect() as job:
        assert len(job.objects.list()) < len(data)  # as it says


def test_rule_3_a_death_is_known_to_all_and_a_stop_is_taken_back(
    five: holdfast.LocalCluster, inside: Inside
) -> None:
    victim = inside.member(2)
    others = [0, 1, 3, 4]
    five.stop(2)
    for node in others:
        wait_for(lambda node=node: inside.state(victim, node) is State.DEAD)
    five.resume(2)
    for node in range(5):
        wait_for(lambda node=node: inside.state(victim, node) is State.ALIVE)
    assert inside.view(0).get(victim.number).incarnation > 0  # it has refuted its death itself
    assert inside.member(2) == victim


def test_rule_3_a_request_that_fails_makes_a_suspect_and_only_a_suspect(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOLDFAST_PROBE_PERIOD", "60 s")  # no probe will find out
    with small_cluster(3) as (cluster, job, inside):
        fill(job, size=1000)
        victim = inside.member(2)
        cluster.stop(2)
        for key in KEYS:  # node 2 is the first owner of some
            assert len(job.objects.get(key)) == 1000
        wait_for(lambda: inside.state(victim, 0) is State.SUSPECT)
        assert victim in inside.view(0).live()
        cluster.resume(2)
        wait_for(lambda: inside.state(victim, 0) is State.ALIVE)
        assert inside.view(0).get(victim.number).incarnation == 1  # it was told, and took it back


def test_rule_4_a_put_under_another_view_is_refused_and_stores_nothing(
    five: holdfast.LocalCluster, inside: Inside
) -> None:
    first = inside.member(0)
    with pytest.raises(errors.StaleView):
        inside.client.put([first.address], [first.number + 1], b"key", b"bytes")
    with pytest.raises(errors.BadInput):
        inside.client.put([first.address], [], b"key", b"bytes")
    assert inside.holders("key") == []


def test_rule_4_a_client_with_an_old_view_merges_and_gets_through(
    five: holdfast.LocalCluster, inside: Inside
) -> None:
    with five.connect() as job:
        fill(job)  # the job knows five nodes
        victim = inside.member(4)
        five.kill(4)
        wait_for(lambda: all(inside.state(victim, node) is State.DEAD for node in range(4)))
        for number in range(40):
            job.objects.put(f"later-{number}", b"x" * 1000, copies=2)
            assert len(inside.holders(f"later-{number}")) >= 2


def test_rule_4_a_drop_at_a_part_of_the_owners_is_refused(
    five: holdfast.LocalCluster, inside: Inside
) -> None:
    with five.connect() as job:
        job.objects.put("key", b"bytes", copies=2)
        job.objects.put("key", b"bytes", copies=3)  # more copies of the same: fine
        owners = Owners(inside.view(0), five.config.virtual_nodes).of(b"key", 3)
        for count in (1, 2):
            numbers = [member.number for member in owners[:count]]
            for member in owners:
                with pytest.raises(errors.StaleView):
                    inside.client.drop(member.address, b"key", numbers)
        assert job.objects.get("key") == b"bytes"
        job.objects.drop("key")
    for member in owners:
        with pytest.raises(errors.Dropped):
            inside.client.get(member.address, b"key")


def test_rule_5_puts_ride_through_a_death_and_are_acknowledged_by_enough(
    five: holdfast.LocalCluster, inside: Inside
) -> None:
    with five.connect() as job:
        five.kill(3)
        for number in range(30):
            job.objects.put(f"k-{number}", b"y" * 5000, copies=3)
            assert len(inside.holders(f"k-{number}")) >= 3
        five.kill(1)
        five.kill(2)
        with pytest.raises(errors.NotEnoughNodes, match="2 of 5 are alive"):
            job.objects.put("too many", b"z", copies=3)


def test_rule_6_any_r_minus_1_deaths_at_once_lose_nothing_and_status_tells(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOLDFAST_PARTITION_WAIT", "2 s")
    with small_cluster(5) as (cluster, job, inside):
        contacts = Contacts(cluster.directory, 5.0)
        data = fill(job, copies=3)
        assert survey(contacts).under_replicated == 0
        for victims in ((3, 4), (1, 2)):
            for victim in victims:
                cluster.kill(victim)
            for key, value in data.items():
                assert job.objects.get(key) == value
            wait_for(lambda: survey(contacts).under_replicated > 0)
            assert survey(contacts).window > 0
            if victims == (3, 4):  # three nodes can have three copies, one cannot
                wait_for(lambda: all(len(held) == 3 for held in inside.all_holders(KEYS).values()))
                wait_for(lambda: survey(contacts).under_replicated == 0)
        contacts.client.close()


def test_rule_7_a_new_member_does_not_speak_for_the_one_before(
    five: holdfast.LocalCluster, inside: Inside
) -> None:
    old = inside.member(1)
    five.kill(1)
    five.restart(1)
    new = inside.member(1)
    assert new.address == old.address
    for ask in (inside.client.get, inside.client.stat, inside.client.open):
        with pytest.raises(errors.NotFound):
            ask(new.address, b"never put", member=new.number)
        with pytest.raises(errors.Unavailable, match="this address now belongs to another member"):
            ask(new.address, b"never put", member=old.number)


def test_rule_8_lost_copies_come_back_by_themselves(
    five: holdfast.LocalCluster, inside: Inside
) -> None:
    with five.connect() as job:
        data = fill(job)
        lost = inside.status(2).tiers["memory"]["bytes"]
        assert lost
        for victim, others in ((2, [0, 1, 3, 4]), (4, [0, 1, 3])):
            five.kill(victim)
            wait_for(lambda: all(len(held) == 2 for held in inside.all_holders(KEYS).values()))
            wait_for(lambda others=others: inside.settled(others))
            time.sleep(1.5)  # two of five within ten periods would be taken for a cut
        moved = sum(inside.restoring(node).restored_bytes for node in (0, 1, 3))
        assert moved >= lost
        for key, value in data.items():
            assert job.objects.get(key) == value


def test_rule_8_only_what_was_lost_moves(five: holdfast.LocalCluster, inside: Inside) -> None:
    with five.connect() as job:
        fill(job)
        lost = inside.status(2).tiers["memory"]["bytes"]
        five.kill(2)
        wait_for(lambda: all(len(held) == 2 for held in inside.all_holders(KEYS).values()))
        moved = sum(inside.restoring(node).restored_bytes for node in (0, 1, 3, 4))
        assert lost <= moved <= 1.05 * lost


def test_rule_8_a_bad_copy_comes_back(five: holdfast.LocalCluster, inside: Inside) -> None:
    with five.connect() as job:
        job.objects.put("key", b"good" * 50_000, copies=2)
        (agent, *_) = (node for node in five.nodes if node.name in inside.holders("key"))
        (path,) = agent.tiers.in_memory()
        os.chmod(path, 0o600)
        with open(path, "r+b") as file:
            file.write(b"bad!")
        with pytest.raises(errors.Damaged):
            inside.client.verify(agent.member.address, b"key")
        wait_for(lambda: len(inside.holders("key")) == 2)
        for node in inside.holders("key"):
            member = inside.member(int(node.removeprefix("node-")))
            assert inside.client.get(member.address, b"key") == b"good" * 50_000


def test_rule_8_a_false_death_is_harmless_and_its_extra_copies_are_trimmed(
    five: holdfast.LocalCluster, inside: Inside
) -> None:
    with five.connect() as job:
        data = fill(job)
        before = inside.all_holders(KEYS)
        five.stop(2)
        others = [0, 1, 3, 4]
        wait_for(lambda: all(len(held) == 2 for held in inside.all_holders(KEYS).values()))
        moved = sum(inside.restoring(node).restored_bytes for node in others)
        five.resume(2)
        wait_for(lambda: inside.all_holders(KEYS) == before)
        wait_for(lambda: inside.settled([0, 1, 2, 3, 4]))
        assert inside.restoring(2).restored_bytes == 0  # it had all of its own
        after = sum(inside.restoring(node).restored_bytes for node in others)
        assert after == moved
        for key, value in data.items():
            assert job.objects.get(key) == value


def test_rule_8_a_new_member_gets_its_share(five: holdfast.LocalCluster, inside: Inside) -> None:
    with five.connect() as job:
        data = fill(job)
        before = inside.all_holders(KEYS)
        five.kill(2)
        wait_for(lambda: all(len(held) == 2 for held in inside.all_holders(KEYS).values()))
        five.restart(2)
        wait_for(lambda: inside.all_holders(KEYS) == before)
        for key, value in data.items():
            assert job.objects.get(key) == value


def test_rule_9_what_was_dropped_stays_dropped(five: holdfast.LocalCluster, inside: Inside) -> None:
    with five.connect() as job:
        fill(job)
        absent = "node-2"
        five.stop(2)
        victim = inside.member(2)
        wait_for(lambda: inside.state(victim, 0) is State.DEAD)
        for key in KEYS:
            job.objects.drop(key)
            with pytest.raises(errors.Dropped):
                job.objects.get(key)
            with pytest.raises(errors.KeyExists, match="dropped"):
                job.objects.put(key, b"again", copies=2)
        five.resume(2)
        wait_for(lambda: inside.status(2).counters["notices"] == len(KEYS))
        wait_for(lambda: inside.settled([0, 1, 2, 3, 4]))
        assert not any(inside.all_holders(KEYS).values()), absent
        with pytest.raises(errors.NotFound):
            job.objects.drop(KEYS[0])


def test_rule_9_versions_below_a_watermark_are_gone_for_ever_and_cost_nothing(
    five: holdfast.LocalCluster, inside: Inside
) -> None:
    with five.connect() as job:
        for version in range(20):
            job.objects.put(f"T/{version}/small", b"%d" % version, copies=2)
            job.objects.put(f"T/{version}/large", b"x" * 100_000, copies=2)
        job.objects.put("T/notes", b"stays", copies=2)
        job.objects.drop("T/3/small")
        five.stop(2)
        victim = inside.member(2)
        wait_for(lambda: inside.state(victim, 0) is State.DEAD)
        job.objects.drop_below("T/", 15)
        job.objects.drop_below("T/", 7)  # says no more
        job.objects.drop_below("T/", -3)
        for version in range(15):
            with pytest.raises(errors.Dropped):
                job.objects.get(f"T/{version}/large")
        with pytest.raises(errors.KeyExists, match="below 15"):
            job.objects.put("T/14", b"again", copies=2)
        job.objects.put("T/15", b"new", copies=2)
        kept = [info.key for info in job.objects.list("T/")]
        five.resume(2)
        wait_for(lambda: inside.settled([0, 1, 2, 3, 4]))
        for node in range(5):
            wait_for(lambda node=node: inside.status(node).counters["notices"] == 1)
            assert inside.status(node).counters["notice_bytes"] < 1000
        above = [f"T/{version}/{size}" for version in range(15, 20) for size in ("large", "small")]
        assert kept == sorted([*above, "T/15", "T/notes"])
        wait_for(lambda: [info.key for info in job.objects.list("T/")] == kept)
        assert job.objects.get("T/notes") == b"stays"


def test_rule_9_many_versions_are_gone_at_once_and_their_nodes_stay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOLDFAST_PROBE_PERIOD", "1 s")
    many = 20_000
    with small_cluster(3) as (_, job, inside):

        def put(first: int) -> None:
            for version in range(first, many, 8):
                job.objects.put(f"T/{version}", b"x", copies=2)

        threads = [threading.Thread(target=put, args=(first,)) for first in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        job.objects.drop_below("T/", many - 1)
        assert [info.key for info in job.objects.list("T/")] == [f"T/{many - 1}"]
        for version in range(0, many - 1, 97):
            with pytest.raises(errors.Dropped):
                job.objects.get(f"T/{version}")
        for node in range(3):
            wait_for(lambda node=node: inside.status(node).counters["dropped"] > 0)
            assert len(inside.view(node).live()) == 3
            assert not inside.view(node).lost()
            assert inside.status(node).counters["notice_bytes"] < 1000
        wait_for(
            lambda: (
                sum(inside.status(node).counters["dropped"] for node in range(3)) == 2 * (many - 1)
            )
        )


def test_rule_10_restoring_waits_when_many_vanish_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOLDFAST_PARTITION_WAIT", "4 s")
    with small_cluster(5) as (cluster, job, inside):
        for key in KEYS:
            job.objects.put(key, b"x" * 10_000, copies=3)
        cluster.kill(3)
        cluster.kill(4)
        wait_for(lambda: all(len(inside.view(node).live()) == 3 for node in range(3)))
        # The second death comes to light a moment after the first, and ends what that began.
        wait_for(lambda: all(inside.restoring(node).partition_wait_left > 0 for node in range(3)))
        time.sleep(0.2)
        restored = [inside.restoring(node).restored for node in range(3)]
        time.sleep(1)  # long enough to have restored all of it
        assert [inside.restoring(node).restored for node in range(3)] == restored
        assert any(len(held) < 3 for held in inside.all_holders(KEYS).values())
        assert sum(inside.restoring(node).under_replicated for node in range(3)) > 0
        wait_for(lambda: all(len(held) == 3 for held in inside.all_holders(KEYS).values()))


def test_an_agent_that_ends_says_so(five: holdfast.LocalCluster, inside: Inside) -> None:
    leaving = inside.member(3)
    inside.client.call(leaving.socket, "agent", "stop", b"")
    for node in (0, 1, 2, 4):
        wait_for(lambda node=node: inside.state(leaving, node) is State.DEAD)
        assert inside.view(node).get(leaving.number).incarnation == 0
