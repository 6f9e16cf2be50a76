"""Files on a storage that counts, and four agents in front of it."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from support.served import served  # noqa: F401 - a fixture

from holdfast.testing.countfs import CountingFS


@pytest.fixture
def data() -> dict[str, bytes]:
    rng = random.Random(4)
    sizes = [0, 1, 4096, 65_536, 100_000, 300_000]
    return {f"part-{n % 3}/{n:03}": rng.randbytes(sizes[n % len(sizes)]) for n in range(60)}


@pytest.fixture
def root(storage: CountingFS) -> Path:
    """Where programs see the files."""
    return storage.at
