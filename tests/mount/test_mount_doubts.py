"""What a mount must not believe for long: files too young to be sure of, names of before."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from mounted import View, bare

OLD, NEW = b"old " * 25, b"new " * 25
#: The default of `file_settled`, as the program is told it.
SETTLED = "settled_ns=60000000000"


@pytest.fixture
def view(root: Path, tmp_path: Path) -> Iterator[View]:
    with bare(root, tmp_path, SETTLED) as shown:
        yield shown


def test_a_young_file_written_again_within_one_tick(view: View) -> None:
    """A second change that does not show in size or times, as within one tick of the clock."""
    path = view.root / "file"
    path.write_bytes(OLD)
    descriptor = os.open(path, os.O_RDWR)
    with mmap.mmap(descriptor, 0) as mapped:
        os.close(descriptor)
        mapped[:] = OLD  # from here on the page is written to without any system's notice
        before = path.stat()
        held = os.open(view / "file", os.O_RDONLY)  # else its pages go with its name
        assert (view / "file").read_bytes() == OLD
        mapped[:] = NEW
        after = path.stat()
    assert (after.st_mtime_ns, after.st_ctime_ns) == (before.st_mtime_ns, before.st_ctime_ns)
    view.refresh(path)
    assert (view / "file").read_bytes() == NEW
    assert os.pread(held, 100, 0) == OLD  # what is open keeps what was read of it
    os.close(held)


def test_a_settled_file_is_not_read_again_for_a_refresh(view: View) -> None:
    path = view.root / "file"
    path.write_bytes(OLD)
    os.utime(path, (1, 1))
    with (view / "file").open("rb") as held:  # else the kernel lets its pages go with its name
        assert held.read() == OLD
        before = view.counters()["bytes"]
        view.refresh(view.root)
        assert (view / "file").read_bytes() == OLD
        assert view.counters()["bytes"] == before
