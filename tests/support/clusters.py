"""Fixtures: a storage that counts what is asked of it, files on it, and agents.

Folders and files have fixtures of the same names for what is different there: `data`, `nodes`,
`settings`, and `served` where the agents stand in front of the storage (served.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from support.settings import SETTINGS

import holdfast
from holdfast.testing import countfs
from holdfast.testing.countfs import CountingFS


@pytest.fixture
def data() -> dict[str, bytes]:
    """Names and bytes of the files that are on the storage from the beginning."""
    return {}


@pytest.fixture
def backing(tmp_path: Path, data: dict[str, bytes]) -> Path:
    """Where the storage keeps its files; tests put more there."""
    directory = tmp_path / "backing"
    directory.mkdir()
    for name, content in data.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return directory


@pytest.fixture
def nodes() -> int:
    """How many nodes there are; each has a mount of the storage."""
    return 4


@pytest.fixture
def storage(tmp_path: Path, backing: Path, nodes: int) -> Iterator[CountingFS]:
    """The shared file system, which counts what is asked of it."""
    if reason := countfs.why_not():
        pytest.skip(reason)
    with CountingFS(backing, tmp_path / "shared", nodes=nodes) as shown:
        yield shown


@pytest.fixture
def served() -> CountingFS | None:
    """The storage that the agents of the cluster stand in front of, if they do."""
    return None


@pytest.fixture
def settings(served: CountingFS | None) -> Mapping[str, Any]:
    """Those of the agents."""
    return {"memory": "512 MiB", "disk": "512 MiB"} if served is None else SETTINGS


@pytest.fixture
def cluster(
    nodes: int, served: CountingFS | None, settings: Mapping[str, Any]
) -> Iterator[holdfast.LocalCluster]:
    """An agent on each node."""
    with holdfast.local_cluster(nodes=nodes, storage=served, **settings) as agents:
        yield agents


@pytest.fixture
def job(cluster: holdfast.LocalCluster) -> Iterator[holdfast.Job]:
    """A connection through node 0."""
    with cluster.connect() as connected:
        yield connected
