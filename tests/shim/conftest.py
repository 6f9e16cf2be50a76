"""Two agents in front of a storage that counts, and programs under the shim."""

from __future__ import annotations

from pathlib import Path

import pytest
from preloaded import Shell
from support.served import served  # noqa: F401 - a fixture

import holdfast
from holdfast.testing.countfs import CountingFS


@pytest.fixture
def nodes() -> int:
    """Half of the files come from the other node."""
    return 2


@pytest.fixture
def shell(cluster: holdfast.LocalCluster, storage: CountingFS, tmp_path: Path) -> Shell:
    """Programs on node 0."""
    return Shell(cluster, storage, tmp_path / "work")
