"""Fails each test that leaves something behind."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.children import children

from holdfast.session import mounts


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    """Look after each test; where tests share their agents, a fixture of that name looks once."""
    with nothing_left():
        yield


@contextlib.contextmanager
def nothing_left() -> Iterator[None]:
    """Fail a test that leaves a mount, a process, a directory, or a descriptor behind."""
    descriptors = _descriptors()
    yield
    left = _mounts()
    _unmount(left)
    assert not left, f"a test left mounts at {left}"
    assert not list(children()), "a test left processes"
    for place in (os.environ["HOLDFAST_MEMORY_DIR"], os.environ["TMPDIR"]):
        names = [name for name in os.listdir(place) if name.startswith("holdfast")]
        assert not names, f"a test left {names} in {place}"
    assert _descriptors() <= descriptors, "a test left descriptors open"


def _mounts() -> list[Path]:
    # Only below the directory of these tests: others on this machine have mounts as well, which
    # come and go meanwhile and are none of our business.
    own = Path(os.environ["TMPDIR"])
    return [one.point for one in mounts.table() if own in one.point.parents]


def _unmount(left: list[Path]) -> None:
    """Let the tests that come next not fail for it."""
    for pid in {pid for point, pid in mounts.existing() if point in left}:
        mounts.remove_of(pid)
    for point in reversed(left):  # the last lies on top
        with contextlib.suppress(OSError):
            mounts.unmount(point)


def _descriptors() -> set[str]:
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            continue
        if target.startswith(("socket:", "anon_inode:", "pipe:")):
            found.add(f"{name} {target}")
    return found
