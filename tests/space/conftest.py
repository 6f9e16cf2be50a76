"""A cluster that the tests of a module share: each uses variables of its own.

Such a module looks once for what they leave behind.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import holdfast
from holdfast.space.space import Space


@pytest.fixture(scope="module")
def shared() -> Iterator[holdfast.LocalCluster]:
    """Four nodes."""
    with holdfast.local_cluster(nodes=4, memory="512 MiB", disk="64 MiB") as cluster:
        yield cluster


@pytest.fixture(scope="module")
def space(shared: holdfast.LocalCluster) -> Iterator[Space]:
    """A space, through node 0."""
    with shared.connect() as job:
        yield job.space("run")


@pytest.fixture(scope="module")
def elsewhere(shared: holdfast.LocalCluster) -> Iterator[Space]:
    """The same space, through node 1."""
    with shared.connect(1) as job:
        yield job.space("run")
