"""A storage that counts, agents in front of it, and how libraries find them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import holdfast
from holdfast.testing.countfs import CountingFS

#: Files need not be old to be kept; only a death makes an owner fail, not a busy machine.
SETTINGS = {
    "probe_period": "0.1 s",
    "file_settled": "0 s",
    "file_deadline": "10 s",
    "deadline": "10 s",
    "memory": "256 MiB",
    "disk": "256 MiB",
    "file_tier": "memory",
}


@pytest.fixture
def nodes() -> int:
    return 3


@pytest.fixture
def cluster(storage: CountingFS, nodes: int) -> Iterator[holdfast.LocalCluster]:
    """Three agents in front of it."""
    with holdfast.local_cluster(nodes=nodes, storage=storage, **SETTINGS) as agents:
        yield agents


@pytest.fixture
def options(cluster: holdfast.LocalCluster) -> dict[str, Any]:
    """What leads a library to them."""
    return reach(cluster)


def reach(cluster: holdfast.LocalCluster) -> dict[str, Any]:
    """Return the settings with which a program finds a cluster."""
    return {
        "session": cluster.directory.name,
        "run_dir": str(cluster.directory.parent),
        **{name: SETTINGS[name] for name in ("file_settled", "file_tier")},
        **{name: SETTINGS[name] for name in ("file_deadline", "deadline")},
    }
