"""Real mounts, and a check that none is left."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from mounted import SETTINGS, View, bare, fill, ours

import holdfast
from holdfast.files.mount import control
from holdfast.session import mounts
from holdfast.testing import countfs as storages
from holdfast.testing.countfs import CountingFS


@pytest.fixture(autouse=True)
def _no_mount_is_left() -> Iterator[None]:
    if reason := storages.why_not():
        pytest.skip(reason)
    yield
    # Only below the directory of these tests: others on this machine have mounts as well, which
    # come and go meanwhile and are none of our business.
    own = Path(os.environ["TMPDIR"])
    left = [point for point in ours() if own in point.parents]
    for point in left:
        mounts.unmount(point)
    assert not left, f"a test left mounts at {left}"


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
def cluster(storage: CountingFS, nodes: int) -> Iterator[holdfast.LocalCluster]:
    with holdfast.local_cluster(nodes=nodes, storage=storage, **SETTINGS) as agents:
        yield agents


@pytest.fixture
def alone() -> Iterator[holdfast.LocalCluster]:
    """One agent, for roots on no storage that counts; what tests mount through it goes with it."""
    with holdfast.local_cluster(nodes=1, **SETTINGS) as agents:
        yield agents
        control.stop_all(agents.directory)
