"""An environment on a storage that counts, and eight agents in front of it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
from asking_trees import NODES, SETTINGS, Programs
from support.served import served  # noqa: F401 - a fixture

import holdfast
from holdfast.testing.countfs import CountingFS


@pytest.fixture
def data() -> dict[str, bytes]:
    rng = random.Random(5)
    sizes = [0, 1, 4095, 4096, 4097, 100_000, 300_000]
    return {f"lib/package-{n % 5}/{n:03}": rng.randbytes(sizes[n % 7]) for n in range(70)}


@pytest.fixture
def nodes() -> int:
    return NODES


@pytest.fixture
def settings() -> dict[str, Any]:
    return SETTINGS


@pytest.fixture
def programs(cluster: holdfast.LocalCluster, storage: CountingFS) -> Iterator[Programs]:
    """Programs on all of them."""
    made = Programs(cluster, storage.at)
    yield made
    made.client.close()
