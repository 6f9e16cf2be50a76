"""`holdfast warm --broadcast` where a storage hangs."""

from __future__ import annotations

from pathlib import Path

import pytest

import holdfast
from holdfast.client.connection import Connection
from holdfast.config import load
from holdfast.files import broadcast
from holdfast.testing.countfs import CountingFS


@pytest.fixture
def nodes() -> int:
    return 2


def test_nodes_that_come_no_further_are_named_and_not_waited_for(
    backing: Path,
    storage: CountingFS,
    cluster: holdfast.LocalCluster,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(broadcast, "_STALLED_AFTER", 1.0)
    config = load(arguments={"file_settled": "0 s"}).config
    for name in ("one", "two"):
        (backing / name).mkdir()
        (backing / name / "file").write_text(name)
    connection = Connection(cluster.directory, config)
    storage.hang("one", "open")
    try:
        done = broadcast.broadcast(connection, config, storage.at / "one")
        assert (done.nodes, done.missed) == ([], [])
        assert sorted(done.stalled) == ["node-0", "node-1"]
    finally:
        storage.heal()
    done = broadcast.broadcast(connection, config, storage.at / "two")
    assert (sorted(done.nodes), done.stalled, done.fetched) == (["node-0", "node-1"], [], 2)
    connection.client.close()
