"""What the tests of the counting storage share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from showing import Show

from holdfast.cluster import mounts, storage
from holdfast.cluster.storage import Storage


@pytest.fixture(autouse=True)
def _no_mount_is_left() -> Iterator[None]:
    if reason := storage.why_not():
        pytest.skip(reason)
    before = set(mounts.existing())  # of others who run tests here
    yield
    left = set(mounts.existing()) - before
    for _, pid in left:
        mounts.remove_of(pid)
    assert not left, f"a test left {left}"


@pytest.fixture
def show(tmp_path: Path, backing: Path) -> Iterator[Show]:
    """Make a storage of `backing` that ends with the test."""
    with ExitStack() as stack:

        def make(**options: Any) -> Storage:
            return stack.enter_context(Storage(backing, tmp_path / "shared", **options))

        yield make


@pytest.fixture
def shared(show: Show) -> Path:
    """Where the storage is seen."""
    return show().at
