"""Real mounts, with and without agents."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from mounted import View, bare, fill
from support.served import served  # noqa: F401 - a fixture
from support.settings import SETTINGS

import holdfast
from holdfast.files.mount import control
from holdfast.testing.countfs import CountingFS


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A directory with a bit of everything."""
    path = tmp_path / "root"
    fill(path)
    return path


@pytest.fixture
def view(root: Path, tmp_path: Path) -> Iterator[View]:
    """It, mounted without any agent."""
    with bare(root, tmp_path) as shown:
        yield shown


@pytest.fixture
def nodes() -> int:
    return 2


@pytest.fixture
def in_parts(storage: CountingFS, nodes: int) -> Iterator[holdfast.LocalCluster]:
    """Agents to which more than 5 MiB are a large file."""
    large = {**SETTINGS, "tree_largest": "5 MiB"}
    with holdfast.local_cluster(nodes=nodes, storage=storage, **large) as agents:
        yield agents


@pytest.fixture
def alone() -> Iterator[holdfast.LocalCluster]:
    """One agent, for roots on no storage that counts; what tests mount through it goes with it."""
    with holdfast.local_cluster(nodes=1, **SETTINGS) as agents:
        yield agents
        control.stop_all(agents.directory)
