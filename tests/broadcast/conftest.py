"""A storage that counts, an environment on it, and eight agents in front of it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from asking_trees import NODES, SETTINGS, Programs

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
    rng = random.Random(5)
    sizes = [0, 1, 4095, 4096, 4097, 100_000, 300_000]
    return {f"lib/package-{n % 5}/{n:03}": rng.randbytes(sizes[n % 7]) for n in range(70)}


@pytest.fixture
def backing(backing: Path, data: dict[str, bytes]) -> Path:
    """Where the storage keeps them."""
    for name, content in data.items():
        path = backing / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return backing


@pytest.fixture
def nodes() -> int:
    return NODES


@pytest.fixture
def cluster(storage: CountingFS, nodes: int) -> Iterator[holdfast.LocalCluster]:
    """Eight agents in front of it."""
    with holdfast.local_cluster(nodes=nodes, storage=storage, **SETTINGS) as agents:
        yield agents


@pytest.fixture
def programs(cluster: holdfast.LocalCluster, storage: CountingFS) -> Iterator[Programs]:
    """Programs on all of them."""
    made = Programs(cluster, storage.at)
    yield made
    made.client.close()
