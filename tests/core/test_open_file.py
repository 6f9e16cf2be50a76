"""Files by descriptor through the agent of the own node, while owners die and stop."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

import holdfast
from holdfast import _core, errors
from holdfast.client.fault_points import FaultPoint, arm
from holdfast.client.messages import AgentStatus, ViewReply, ViewRequest
from holdfast.membership.view import State

SIZE = 8 << 20
DEADLINE = 30.0


class Reader:
    """A program on node 0 of three."""

    def __init__(self, cluster: holdfast.LocalCluster, root: Path) -> None:
        self.cluster = cluster
        self.root = root
        self.client = _core.AgentClient(bytes.fromhex((cluster.directory / "key").read_text()))
        self._ring = _core.Ring([node.name for node in cluster.nodes], 100)

    def order(
        self, path: Path, on_failure: _core.OnFailure = _core.OnFailure.RECACHE
    ) -> _core.FileOrder:
        return _core.FileOrder(
            os.fsencode(self.root),
            os.fsencode(path),
            tier=_core.Tier.MEMORY,
            on_failure=on_failure,
            largest=1 << 30,
        )

    def file_of(self, *nodes: int) -> tuple[Path, bytes]:
        """Make a file whose first owners are these nodes."""
        wanted = [f"node-{node}" for node in nodes]
        for number in range(10_000):
            path = self.root / f"file-{number}"
            if self._ring.owners(b"@file" + os.fsencode(path), len(nodes)) == wanted:
                path.write_bytes(os.urandom(SIZE))
                return path, path.read_bytes()
        raise AssertionError("no such file")

    def fill(self, node: int, path: Path) -> None:
        """Let a node read the file, so that it has a copy."""
        address = self.cluster.nodes[node].member.address
        self.client.read(address, self.order(path), deadline=DEADLINE)

    def open(
        self, path: Path, on_failure: _core.OnFailure = _core.OnFailure.RECACHE
    ) -> tuple[bytes, _core.Attributes]:
        socket = self.cluster.nodes[0].member.socket
        opened = self.client.open_file(socket, self.order(path, on_failure), deadline=DEADLINE)
        with open(opened.descriptor, "rb") as file:
            about = os.fstat(opened.descriptor)
            assert about.st_mode & 0o7777 == 0o400
            assert (opened.begin, opened.size) == (0, about.st_size)  # all of it
            return file.read(), opened.attributes

    def counters(self) -> dict[str, int]:
        answer = self.client.call(self.cluster.nodes[0].member.socket, "agent", "status", b"")
        return msgspec.msgpack.decode(answer, type=AgentStatus).counted()

    def suspects(self, node: int) -> bool:
        """Whether the agent of node 0 doubts that another lives."""
        socket = self.cluster.nodes[0].member.socket
        answer = self.client.call(
            socket, "membership", "view", msgspec.msgpack.encode(ViewRequest())
        )
        entries = msgspec.msgpack.decode(answer, type=ViewReply).entries
        return any(
            entry.member.node == f"node-{node}" and entry.state != State.ALIVE for entry in entries
        )


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    root = tmp_path / "shared"
    root.mkdir()
    # A view that hardly changes: what is tested goes on before anybody is declared dead.
    with holdfast.local_cluster(nodes=3, probe_period="5 s") as cluster:
        program = Reader(cluster, root)
        yield program
        program.client.close()


def test_a_file_of_this_node_and_one_of_another(reader: Reader) -> None:
    for node in (0, 1):
        path, data = reader.file_of(node)
        for _ in range(2):
            got, attributes = reader.open(path)
            assert got == data
            info = os.stat(path)
            assert attributes.mode == info.st_mode
            assert attributes.inode == info.st_ino
            assert attributes.size == SIZE
            assert attributes.mtime_ns == info.st_mtime_ns
    counters = reader.counters()
    assert counters["file_local"] == 2
    assert counters["file_fetched"] == 2
    assert counters["file_fetched_bytes"] == 2 * SIZE
    assert counters["file_failures"] == 0


@pytest.mark.parametrize("action", ["kill", "stop"])
def test_an_owner_that_fails_in_the_middle_is_replaced_by_the_next(
    reader: Reader, action: str
) -> None:
    path, data = reader.file_of(1, 2)
    reader.fill(1, path)
    arm(
        reader.client, reader.cluster.nodes[1].member.socket, FaultPoint("get", action, 2), DEADLINE
    )
    assert reader.open(path)[0] == data
    assert reader.counters()["file_failures"] >= 1
    assert reader.suspects(1)  # within one turn of the agent's loop, long before a probe fails
    if action == "kill":
        assert not reader.cluster.nodes[1].alive
        assert reader.open(path)[0] == data
    else:
        reader.cluster.resume(1)


def test_the_policies(reader: Reader) -> None:
    path, data = reader.file_of(1)
    reader.cluster.kill(1)
    with pytest.raises(errors.Unavailable, match="failed"):
        reader.open(path, _core.OnFailure.ABORT)
    with pytest.raises(errors.NotCached):
        reader.open(path, _core.OnFailure.REDIRECT)
    assert reader.open(path, _core.OnFailure.RECACHE)[0] == data
    with pytest.raises(errors.NotCached):
        reader.open(reader.root / "absent")


def test_files_are_opened_over_the_socket_only(reader: Reader) -> None:
    path, _ = reader.file_of(0)
    with pytest.raises(errors.BadInput, match="same host"):
        reader.client.open_file(
            reader.cluster.nodes[0].member.address, reader.order(path), deadline=DEADLINE
        )


def test_trust_counts_strikes_and_forgives() -> None:
    trust = _core.Trust(2, 5.0, 0.5, 2.0)
    now = 10_000_000.0  # a host may have been up for months
    assert trust.deadline(1) == 0.5
    trust.answered(1, 0.25)
    assert trust.deadline(1) == 1.0
    trust.failed(1, True, now)
    assert trust.trusts(1, now)
    trust.failed(1, True, now)
    assert not trust.trusts(1, now + 4.9)
    assert trust.trusts(1, now + 5.1)
    trust.failed(2, False, now)
    assert not trust.trusts(2, now)
    trust.answered(2, 0.1)
    assert trust.trusts(2, now)
