"""What the tests of the counting storage share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from showing import Show

from holdfast.session import mounts
from holdfast.testing import countfs
from holdfast.testing.countfs import CountingFS


@pytest.fixture(autouse=True)
def _no_mount_is_left() -> Iterator[None]:
    if reason := countfs.why_not():
        pytest.skip(reason)
    yield
    # Only below the directory of these tests: those of others come and go meanwhile.
    own = Path(os.environ["TMPDIR"])
    left = [one for one in mounts.existing() if own in one[0].parents]
    for _, pid in left:
        mounts.remove_of(pid)
    assert not left, f"a test left {left}"


@pytest.fixture
def show(tmp_path: Path, backing: Path) -> Iterator[Show]:
    """Make a storage of `backing` that ends with the test."""
    with ExitStack() as stack:

        def make(**options: Any) -> CountingFS:
            return stack.enter_context(CountingFS(backing, tmp_path / "shared", **options))

        yield make


@pytest.fixture
def shared(show: Show) -> Path:
    """Where the storage is seen."""
    return show().at
