"""A disk that cannot be read any more is given up, and what lay on it is kept elsewhere."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import msgspec
import pytest
from support.waits import WITHIN, wait_for
from typer.testing import CliRunner

import holdfast
from holdfast import _core, errors
from holdfast.cli.main import app
from holdfast.client.messages import AgentStatus
from holdfast.membership.view import MembershipStatus
from holdfast.restoration.restorer import RestoreStatus
from holdfast.testing.countfs import CountingFS


@pytest.fixture
def nodes() -> int:
    """All agents have their disks in the one mount that the storage shows to the host."""
    return 0


class Watched:
    """Agents, and questions to each of them."""

    def __init__(self, cluster: holdfast.LocalCluster) -> None:
        self.cluster = cluster
        self._client = _core.AgentClient(bytes.fromhex((cluster.directory / "key").read_text()))

    def __enter__(self) -> Watched:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def status(self, node: int) -> AgentStatus:
        socket = self.cluster.nodes[node].member.socket
        answer = self._client.call(socket, "agent", "status", b"", deadline=WITHIN)
        return msgspec.msgpack.decode(answer, type=AgentStatus)

    def holders(self, key: str) -> dict[int, _core.Tier]:
        """Return the nodes with a copy, and where it lies there."""
        found = {}
        for index, node in enumerate(self.cluster.nodes):
            try:
                info = self._client.stat(node.member.socket, key.encode(), deadline=WITHIN)
            except (errors.NotFound, errors.Damaged):
                continue
            found[index] = info.tier
        return found


def break_disk(storage: CountingFS, cluster: holdfast.LocalCluster, node: int) -> None:
    """Let all reads of a node's disk fail; writes succeed."""
    storage.fail(os.path.basename(cluster.nodes[node].tiers.disk_dir), "read", errno.EIO)


def test_copies_on_a_disk_that_fails_are_restored_and_survive_the_next_death(
    storage: CountingFS,
) -> None:
    bad = 1
    with (
        holdfast.local_cluster(
            nodes=4, memory="64 MiB", disk="64 MiB", disk_dir=str(storage.at), scrub_rate="1 GB/s"
        ) as cluster,
        Watched(cluster) as watched,
        cluster.connect(0) as job,
    ):
        data = {f"key-{n}": os.urandom(70_000) for n in range(24)}
        for key, one in data.items():
            job.objects.put(key, one, copies=2, tier="disk")
        break_disk(storage, cluster, bad)
        for key, one in data.items():  # also those that the bad disk was asked for
            assert job.objects.get(key) == one
        wait_for(lambda: watched.status(bad).tiers["disk"]["condemned"])
        [condemned] = [event for event in cluster.story() if event.kind == "condemned"]
        assert (condemned.node, condemned.what) == (f"node-{bad}", "disk")
        assert condemned.cause.startswith(f"{os.strerror(errno.EIO)}; ")
        assert condemned.cause.endswith(" copies are abandoned")

        def whole() -> bool:
            return all(len(watched.holders(key)) == 2 for key in data)

        wait_for(whole)
        assert watched.status(bad).tiers["disk"]["objects"] == 0
        tiers = [held[bad] for key in data if bad in (held := watched.holders(key))]
        assert tiers, "the node with the bad disk owned nothing"
        assert set(tiers) == {_core.Tier.MEMORY}
        job.objects.put("new", b"bytes", copies=4, tier="disk")
        assert watched.holders("new")[bad] == _core.Tier.MEMORY
        assert watched.status(bad).of("membership", MembershipStatus).incarnation == 0, (
            "a healthy agent was suspected"
        )
        settings = f"run_dir={cluster.directory.parent}"
        shown = CliRunner().invoke(
            app, ["status", "--session", cluster.directory.name, "--set", settings]
        )
        assert f"The disk of node-{bad} has failed" in shown.output
        cluster.kill(2)
        for key, one in data.items():
            assert job.objects.get(key) == one


def test_what_finds_no_room_in_memory_is_shown_as_lacking(storage: CountingFS) -> None:
    with (
        holdfast.local_cluster(
            nodes=2, memory="1 MiB", disk="64 MiB", disk_dir=str(storage.at), scrub_rate="1 GB/s"
        ) as cluster,
        Watched(cluster) as watched,
        cluster.connect(0) as job,
    ):
        for n in range(8):
            job.objects.put(f"key-{n}", os.urandom(400_000), copies=2, tier="disk")
        break_disk(storage, cluster, 1)
        wait_for(lambda: watched.status(1).tiers["disk"]["condemned"])
        wait_for(lambda: watched.status(1).tiers["memory"]["occupied"] >= 400_000)  # all it can
        wait_for(lambda: watched.status(1).of("restoring", RestoreStatus).under_replicated >= 6)
        with pytest.raises(errors.Full):
            job.objects.put("more", bytes(900_000), copies=2, tier="disk")


def test_files_go_on_when_the_disk_under_their_copies_fails(
    storage: CountingFS, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    root.mkdir()
    for n in range(12):
        (root / str(n)).write_bytes(bytes([n]) * 50_000)
    with (
        holdfast.local_cluster(
            nodes=2, disk_dir=str(storage.at), disk="64 MiB", file_tier="disk", file_settled="0 s"
        ) as cluster,
        Watched(cluster) as watched,
        cluster.connect(0) as job,
    ):
        files = job.files(root)
        for _ in range(2):
            for n in range(12):
                assert files.read(str(n)) == bytes([n]) * 50_000
        for node in range(2):
            break_disk(storage, cluster, node)
        for _ in range(3):
            for n in range(12):
                assert files.read(str(n)) == bytes([n]) * 50_000
        for node in range(2):
            tiers = watched.status(node).tiers
            assert tiers["disk"]["condemned"]
            assert tiers["memory"]["objects"] > 0, "nothing is cached any more"
