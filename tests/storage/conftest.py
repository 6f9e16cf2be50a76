"""What the tests of the counting storage share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from showing import Show

from holdfast.testing.countfs import CountingFS


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
