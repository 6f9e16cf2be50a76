"""Agents that die, stop, fill up or lose files at the worst moment: no wrong byte, no hang."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support.cores import core_in
from support.waits import wait_for

import holdfast
from holdfast import _core, errors
from holdfast.session import session as sessions

BIG = 64 << 20


def owner_index(job: holdfast.Job, key: str, which: int) -> int:
    """Number of the node that is owner `which` of `key`."""
    owner = job._connection.routing.owners.of(key.encode(), which + 1)[which]
    return int(owner.node.removeprefix("node-"))


def key_owned(job: holdfast.Job, first: int, second: int | None = None) -> str:
    """A key whose first owners are these nodes."""
    for number in range(10_000):
        key = f"key-{number}"
        if owner_index(job, key, 0) == first and second in (None, owner_index(job, key, 1)):
            return key
    raise AssertionError("no such key")


def reserved(cluster: holdfast.LocalCluster, node: int) -> int:
    """Bytes on their way into a node's memory tier."""
    member = cluster.nodes[node].member
    client = _core.AgentClient(bytes.fromhex((cluster.directory / "key").read_text()))
    import msgspec

    status = msgspec.msgpack.decode(client.call(member.socket, "agent", "status", b""))
    return status["tiers"]["memory"]["reserved"]


class Background:
    """Runs a call in a thread and keeps what came of it."""

    def __init__(self, call: Callable[[], object]) -> None:
        self.result: object = None
        self.error: Exception | None = None
        self._call = call
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.result = self._call()
        except Exception as error:
            self.error = error

    def join(self) -> None:
        self._thread.join(30)
        assert not self._thread.is_alive(), "it hangs"
        if self.error:
            raise self.error


@pytest.mark.parametrize("victim", [0, 1])
@pytest.mark.parametrize("size", [1000, BIG])
def test_an_owner_killed_in_the_middle_of_a_put_is_replaced(
    cluster: holdfast.LocalCluster, job: holdfast.Job, victim: int, size: int
) -> None:
    data = os.urandom(size)
    key = key_owned(job, 2, 3)
    cluster.stop(3)  # the second owner: the first waits for it, so the put is certainly under way
    put = Background(lambda: job.objects.put(key, data, copies=2))
    time.sleep(0.1)
    cluster.kill(2 if victim == 0 else 3)
    if victim == 0:
        cluster.resume(3)
    put.join()
    assert job.objects.get(key) == data
    assert len(holders(cluster, key)) >= 2


def holders(cluster: holdfast.LocalCluster, key: str) -> list[str]:
    found = []
    client = _core.AgentClient(bytes.fromhex((cluster.directory / "key").read_text()))
    for member in (node.member for node in cluster.nodes):
        try:
            client.stat(member.socket, key.encode(), deadline=1.0)
        except (errors.NotFound, errors.TryAgain, errors.Damaged):
            continue
        found.append(member.node)
    return found


@pytest.mark.parametrize("victim", [2, 3])
def test_an_owner_killed_between_two_bytes_of_a_put_is_replaced(
    cluster: holdfast.LocalCluster, job: holdfast.Job, victim: int
) -> None:
    data = os.urandom(BIG)
    key = key_owned(job, 2, 3)
    put = Background(lambda: job.objects.put(key, data, copies=2))
    wait_for(lambda: reserved(cluster, victim) > 0 or put.result is not None)
    cluster.kill(victim)
    put.join()
    assert job.objects.get(key) == data


def test_an_owner_killed_in_the_middle_of_a_get_is_replaced(
    cluster: holdfast.LocalCluster, job: holdfast.Job
) -> None:
    data = os.urandom(BIG)
    key = key_owned(job, 2, 3)
    job.objects.put(key, data, copies=2)
    for delay in (0.0, 0.005, 0.02):
        out = bytearray(BIG)
        get = Background(lambda out=out: job.objects.get_into(key, out))
        time.sleep(delay)
        cluster.kill(2)
        get.join()
        assert out == data
        cluster.restart(2)
        job._connection.refresh()
        if delay < 0.02:
            wait_for(lambda: "node-2" in holders(cluster, key))  # restored


def failure_of(agent: _core.Agent) -> tuple[int, str, str]:
    """Wait until a request of an agent fails; return its ticket, the error's name and its text."""
    found = []

    def failed() -> bool:
        while event := agent.next_event():
            if isinstance(event, _core.FailedEvent):
                found.append((event.ticket, event.code, event.message))
        return bool(found)

    wait_for(failed)
    return found[0]


def test_a_pull_that_loses_its_source_fails_and_leaves_nothing(
    cluster: holdfast.LocalCluster, job: holdfast.Job, tmp_path: Path
) -> None:
    data = os.urandom(BIG)
    key = key_owned(job, 2, 3)
    job.objects.put(key, data, copies=2)
    cluster.stop(2)
    job_key = sessions.read_key(cluster.directory)
    puller = core_in(tmp_path, job_key, 2 * BIG)
    try:
        puller.set_self(1)
        puller.start()
        source = cluster.nodes[2].member.address
        puller.pull(7, key.encode(), source, _core.Tier.MEMORY, 5.0)
        time.sleep(0.1)
        cluster.kill(2)
        assert failure_of(puller)[:2] == (7, "Unavailable")
        memory = puller.tiers()["memory"]
        assert (memory["objects"], memory["reserved"]) == (0, 0)
    finally:
        puller.stop()
    assert job.objects.get(key) == data


def test_a_client_of_a_stopped_agent_goes_on_through_another_after_one_deadline(
    cluster: holdfast.LocalCluster, job: holdfast.Job
) -> None:
    keys = [f"key-{number}" for number in range(40)]
    for key in keys:
        job.objects.put(key, key.encode() * 1000, copies=2)
    cluster.stop(0)  # the agent that this job goes through
    start = time.monotonic()
    for key in keys:
        assert job.objects.get(key) == key.encode() * 1000
    job.objects.put("new", b"bytes", copies=2)
    # One deadline of 1 s, not one per request; the ceiling is for hangs.
    assert time.monotonic() - start < 10
    other = cluster.connect()  # a new client meets the silence once, too
    assert other.objects.get("new") == b"bytes"
    cluster.resume(0)


def test_a_killed_agent_costs_its_copies_only(
    cluster: holdfast.LocalCluster, job: holdfast.Job
) -> None:
    for number in range(30):
        job.objects.put(f"twice-{number}", b"x" * 5000, copies=2)
        job.objects.put(f"once-{number}", b"y" * 5000, copies=1)
    cluster.kill(1)
    owned = [number for number in range(30) if owner_index(job, f"once-{number}", 0) == 1]
    assert owned
    for number in range(30):
        assert job.objects.get(f"twice-{number}") == b"x" * 5000
        if number in owned:
            with pytest.raises(errors.Unavailable, match="node-1"):
                job.objects.get(f"once-{number}")
        else:
            assert job.objects.get(f"once-{number}") == b"y" * 5000
    with pytest.raises(errors.Unavailable, match="node-1"):
        job.objects.get("never put")
    cluster.restart(1)
    # The new member is empty, and the old one may have had it: still not "not found".
    with pytest.raises(errors.Unavailable, match=r"node-1 \(lost\)"):
        job.objects.get("never put")
    job.objects.put("four", b"copies", copies=4)


def test_another_session_on_the_port_of_a_dead_agent_is_no_refusal(
    cluster: holdfast.LocalCluster, job: holdfast.Job, tmp_path: Path
) -> None:
    key = key_owned(job, 2, 3)
    job.objects.put(key, b"bytes", copies=2)
    stranger = core_in(tmp_path, os.urandom(32), BIG)
    cluster.kill(2)
    try:
        stranger.listen(cluster.nodes[2].member.address)
        stranger.start()
        listing = job.objects.list()
        assert listing.missing == ("node-2",)
        assert [one.key for one in listing] == [key]
        assert job.objects.get(key) == b"bytes"
    finally:
        stranger.stop()


def test_fewer_nodes_than_copies_is_said_and_nothing_is_stored(
    cluster: holdfast.LocalCluster, job: holdfast.Job
) -> None:
    cluster.kill(1)
    cluster.kill(2)
    with pytest.raises(errors.NotEnoughNodes, match="2 of 4 are alive"):
        job.objects.put("key", b"bytes", copies=3)
    job.objects.put("key", b"bytes", copies=2)
    assert job.objects.get("key") == b"bytes"


def tier_files(cluster: holdfast.LocalCluster, node: int, tier: str) -> list[Path]:
    tiers = cluster.nodes[node].tiers
    if tier == "memory":
        return sorted(map(Path, tiers.in_memory()))
    return sorted(Path(tiers.disk_dir).iterdir())


@pytest.mark.parametrize("tier", ["memory", "disk"])
@pytest.mark.parametrize("harm", ["flip", "truncate", "remove"])
def test_a_damaged_copy_is_never_returned_and_counts_as_lost(
    cluster: holdfast.LocalCluster, job: holdfast.Job, tier: str, harm: str
) -> None:
    data = os.urandom(3 << 20)
    key = key_owned(job, 2, 3)
    job.objects.put(key, data, copies=2, tier=tier)
    (path,) = tier_files(cluster, 2, tier)
    path.chmod(0o600)
    if harm == "flip":
        with path.open("r+b") as file:
            file.seek(1_234_567)
            byte = file.read(1)
            file.seek(1_234_567)
            file.write(bytes([byte[0] ^ 1]))
    elif harm == "truncate":
        os.truncate(path, 1000)
    else:
        path.unlink()
    assert job.objects.get(key) == data  # the other copy serves
    wait_for(lambda: "lost the copy" in cluster.nodes[2].log.read_text())
    # And it comes back, whole.
    wait_for(lambda: sorted(holders(cluster, key)) == ["node-2", "node-3"])
    assert job._connection.client.get(cluster.nodes[2].member.address, key.encode()) == data


def test_the_scrub_finds_a_bad_copy_by_itself() -> None:
    with holdfast.local_cluster(nodes=2, scrub_rate="1 GB/s", memory="64 MiB") as cluster:
        job = cluster.connect()
        job.objects.put("key", b"x" * 200_000, copies=2)
        (path,) = tier_files(cluster, 1, "memory")
        path.chmod(0o600)
        with path.open("r+b") as file:
            file.write(b"y")
        wait_for(lambda: "lost the copy of 'key'" in cluster.nodes[1].log.read_text())
        del job


def test_a_full_tier_refuses_and_the_rest_stays(tmp_path: Path) -> None:
    with holdfast.local_cluster(nodes=2, memory="4 MiB") as cluster, cluster.connect() as job:
        job.objects.put("first", b"x" * (3 << 20), copies=2)
        with pytest.raises(errors.Full, match="drop objects or start with a larger capacity"):
            job.objects.put("second", b"y" * (2 << 20), copies=2)
        assert job.objects.get("first") == b"x" * (3 << 20)
        assert holders(cluster, "second") == []
        job.objects.drop("first")
        job.objects.put("second", b"y" * (2 << 20), copies=2)


@pytest.mark.parametrize("pages", ["on", "off"])
def test_a_tier_removed_underneath_is_said(pages: str) -> None:
    with (
        holdfast.local_cluster(nodes=4, memory="64 MiB", huge_pages=pages) as cluster,
        cluster.connect() as job,
    ):
        key = key_owned(job, 2, 3)
        job.objects.put(key, b"x" * 100_000, copies=2)
        tiers = cluster.nodes[2].tiers
        own = os.path.exists(os.path.join(tiers.memory_dir, "large"))
        shutil.rmtree(tiers.memory_dir)
        assert job.objects.get(key) == b"x" * 100_000
        if own:  # nobody can remove what has no name
            job.objects.put(key_owned(job, 2, 0), b"x" * 100_000, copies=2)
            return
        with pytest.raises(errors.Damaged, match="removed while the agent was using it"):
            job.objects.put(key_owned(job, 2, 0), b"x" * 100_000, copies=2)


@pytest.mark.skipif(os.getuid() != 0, reason="mounting a small read-only tmpfs needs root")
def test_a_full_file_system_is_said_and_a_read_only_one_replaced_by_memory(tmp_path: Path) -> None:
    import subprocess

    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(small)], check=True)
    try:
        with (
            holdfast.local_cluster(nodes=1, disk_dir=str(small), disk="1 GiB") as cluster,
            cluster.connect() as job,
        ):
            # Somebody else takes the room that was free at the start.
            (small / "other").write_bytes(b"z" * 900_000)
            with pytest.raises(errors.Full):
                job.objects.put("key", b"x" * 500_000, copies=1, tier="disk")
            job.objects.put("key", b"x" * 100_000, copies=1, tier="disk")
            subprocess.run(["mount", "-o", "remount,ro", str(small)], check=True)
            job.objects.put("other", b"y" * 100_000, copies=1, tier="disk")
            assert job.objects.stat("other").tier == "memory"  # the disk takes nothing any more
            assert job.objects.get("other") == b"y" * 100_000
            assert job.objects.get("key") == b"x" * 100_000  # what it has can still be read
            subprocess.run(["mount", "-o", "remount,rw", str(small)], check=True)
    finally:
        subprocess.run(["umount", str(small)], check=True)
