"""A fixture for folders whose agents stand in front of the storage; their conftest imports it."""

from __future__ import annotations

import pytest

from holdfast.testing.countfs import CountingFS


@pytest.fixture
def served(storage: CountingFS) -> CountingFS:
    """The storage that the agents of the cluster stand in front of."""
    return storage
