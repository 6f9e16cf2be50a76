"""What the tests of the counting storage share."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast.cluster import mounts, storage
from holdfast.cluster.storage import Storage

Show = Callable[..., Storage]


@contextmanager
def running(command: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command whose output nobody wants; it does not outlive the block."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.kill()


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
def backing(tmp_path: Path) -> Path:
    path = tmp_path / "backing"
    path.mkdir()
    return path


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
