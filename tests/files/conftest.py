"""A storage that counts, files on it, and four agents in front of it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from epochs import SETTINGS

import holdfast
from holdfast.testing import countfs as storages
from holdfast.testing.countfs import CountingFS


@pytest.fixture(autouse=True)
def _can_count() -> None:
    if reason := storages.why_not():
        pytest.skip(reason)


@pytest.fixture
def data() -> dict[str, bytes]:
    """Names and bytes of the files."""
    rng = random.Random(4)
    sizes = [0, 1, 4096, 65_536, 100_000, 300_000]
    return {f"part-{n % 3}/{n:03}": rng.randbytes(sizes[n % len(sizes)]) for n in range(60)}


@pytest.fixture
def backing(backing: Path, data: dict[str, bytes]) -> Path:
    """Where the storage keeps them."""
    for name, content in data.items():
        path = backing / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return backing


@pytest.fixture
def root(storage: CountingFS) -> Path:
    """Where programs see the files."""
    return storage.at


@pytest.fixture
def settings() -> dict[str, str]:
    """Those of the agents."""
    return SETTINGS


@pytest.fixture
def cluster(
    storage: CountingFS, nodes: int, settings: dict[str, str]
) -> Iterator[holdfast.LocalCluster]:
    """Four agents in front of it."""
    with holdfast.local_cluster(nodes=nodes, storage=storage, **settings) as agents:
        yield agents


@pytest.fixture
def job(cluster: holdfast.LocalCluster) -> Iterator[holdfast.Job]:
    """A connection through node 0."""
    with cluster.connect() as connected:
        yield connected
