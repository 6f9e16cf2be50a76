"""A storage that counts, agents in front of it, and programs under the shim."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from preloaded import SETTINGS, Shell

import holdfast
from holdfast.testing import countfs as storages
from holdfast.testing.countfs import CountingFS


@pytest.fixture(autouse=True)
def _can_count() -> None:
    if reason := storages.why_not():
        pytest.skip(reason)


@pytest.fixture
def nodes() -> int:
    return 2


@pytest.fixture
def cluster(storage: CountingFS, nodes: int) -> Iterator[holdfast.LocalCluster]:
    """Two agents in front of it: half of the files come from the other node."""
    with holdfast.local_cluster(nodes=nodes, storage=storage, **SETTINGS) as agents:
        yield agents


@pytest.fixture
def shell(cluster: holdfast.LocalCluster, storage: CountingFS, tmp_path: Path) -> Shell:
    """Programs on node 0."""
    return Shell(cluster, storage, tmp_path / "work")
