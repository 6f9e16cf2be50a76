"""`holdfast warm --broadcast` where a storage hangs."""

from __future__ import annotations

from pathlib import Path

import pytest

import holdfast
from holdfast.cluster.peers import Peers
from holdfast.cluster.storage import Storage
from holdfast.config import load
from holdfast.files import broadcast


@pytest.fixture
def nodes() -> int:
    return 2


def test_nodes_that_come_no_further_are_named_and_not_waited_for(
    backing: Path,
    storage: Storage,
    cluster: holdfast.LocalCluster,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(broadcast, "_STALLED_AFTER", 1.0)
    config = load(arguments={"file_settled": "0 s"}).config
    for name in ("one", "two"):
        (backing / name).mkdir()
        (backing / name / "file").write_text(name)
    peers = Peers(cluster.directory, config)
    storage.hang("one", "open")
    try:
        done = broadcast.broadcast(peers, config, storage.at / "one")
        assert (done.nodes, done.missed) == ([], [])
        assert sorted(done.stalled) == ["node-0", "node-1"]
    finally:
        storage.heal()
    done = broadcast.broadcast(peers, config, storage.at / "two")
    assert (sorted(done.nodes), done.stalled, done.fetched) == (["node-0", "node-1"], [], 2)
    peers.client.close()
