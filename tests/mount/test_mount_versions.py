"""One version of a file, whole, or an error: never a mixture, never a file cut short."""

from __future__ import annotations

import errno
import itertools
import mmap
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from mounted import View, bare, through
from support.waits import wait_for

import holdfast
from holdfast.testing.countfs import HOST, CountingFS

#: More than the kernel reads ahead, so that much of it is read after the change.
SIZE = 12 << 20
OLD, NEW = b"old!" * (SIZE // 4), b"new!" * (SIZE // 4)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "root"
    path.mkdir()
    (path / "file").write_bytes(OLD)
    return path


def read_rest(descriptor: int, so_far: bytes) -> bytes | int:
    """Read to the end; returns it all, or the error's number."""
    pieces = [so_far]
    try:
        while piece := os.read(descriptor, 1 << 16):
            pieces.append(piece)
    except OSError as error:
        return error.errno or 0
    finally:
        os.close(descriptor)
    return b"".join(pieces)


def replace(path: Path) -> None:
    path.with_name("temporary").write_bytes(NEW)
    path.with_name("temporary").replace(path)


def overwrite(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(NEW)


def shorten(path: Path) -> None:
    os.truncate(path, 100)


@pytest.mark.parametrize("change", [replace, overwrite, shorten, Path.unlink])
@pytest.mark.parametrize("refreshed", [False, True])
def test_a_file_that_changes_while_it_is_read(view: View, change: object, refreshed: bool) -> None:
    descriptor = os.open(view / "file", os.O_RDONLY)
    begin = os.read(descriptor, 1000)
    assert begin == OLD[:1000]
    change(view.root / "file")  # type: ignore[operator]
    if refreshed:
        view.refresh(view.root / "file")
    got = read_rest(descriptor, begin)
    assert got in (OLD, errno.ESTALE)
    if change in (replace, Path.unlink):  # the old file is there still, without its name
        assert got == OLD
    # Who opens it now sees what is there now, if somebody has noticed; the kernel is told a moment
    # after the reader.
    if refreshed:
        assert seen_now(view)
    elif got == errno.ESTALE:
        wait_for(lambda: seen_now(view))


@pytest.mark.parametrize("change", [replace, overwrite, shorten, Path.unlink])
def test_a_large_file_that_changes_while_it_comes_in_parts(
    backing: Path,
    storage: CountingFS,
    in_parts: holdfast.LocalCluster,
    tmp_path: Path,
    change: Callable[[Path], object],
) -> None:
    """Through both nodes: one of them is its head."""
    (backing / "file").write_bytes(OLD)
    with (
        through(in_parts, tmp_path / "m0", storage.at, 0) as first,
        through(in_parts, tmp_path / "m1", storage.at, 1) as second,
    ):
        views = (first, second)
        descriptors = [os.open(view / "file", os.O_RDONLY) for view in views]
        begins = [os.read(descriptor, 1000) for descriptor in descriptors]
        assert begins == [OLD[:1000]] * 2
        assert storage.opens(HOST) == {}  # it comes from the agents
        change(backing / "file")
        for descriptor, begin in zip(descriptors, begins, strict=True):
            assert read_rest(descriptor, begin) in (OLD, errno.ESTALE)
        with in_parts.connect() as job:
            assert job.files(storage.at).refresh("file").missed == []
        storage.reset()
        for view in views:
            assert seen_now(view)
        assert storage.opens(HOST).keys() <= {"file"}  # of whom compares
        assert all(view.counters()["files_from_storage"] <= 1 for view in views)


def test_versions_of_a_large_file_are_never_mixed(
    backing: Path, storage: CountingFS, in_parts: holdfast.LocalCluster, tmp_path: Path
) -> None:
    """It is replaced and deleted all the time while both nodes read it."""
    versions = [bytes([number]) * SIZE for number in range(4)]
    (backing / "file").write_bytes(versions[0])
    stop = threading.Event()
    seen: set[object] = set()

    def change() -> None:
        for number in itertools.count():
            if stop.wait(0.02):
                return
            (backing / "next").write_bytes(versions[number % 4])
            if number % 3 == 0:
                (backing / "file").unlink(missing_ok=True)
            (backing / "next").replace(backing / "file")

    def read(view: View) -> object:
        try:
            content = (view / "file").read_bytes()
        except OSError as error:
            return error.errno
        return content[0] if content in versions else f"a mixture of {set(content)}"

    with (
        through(in_parts, tmp_path / "m0", storage.at, 0) as first,
        through(in_parts, tmp_path / "m1", storage.at, 1) as second,
        in_parts.connect() as job,
        ThreadPoolExecutor(4) as pool,
    ):
        writer = threading.Thread(target=change)
        writer.start()
        try:
            for _ in range(15):
                seen |= set(pool.map(read, (first, second) * 2))
                job.files(storage.at).refresh("file")
        finally:
            stop.set()
            writer.join()
        assert seen <= {0, 1, 2, 3, errno.ESTALE, errno.ENOENT}
        assert job.files(storage.at).refresh("file").missed == []
        assert (first / "file").read_bytes() == (backing / "file").read_bytes()
        assert (second / "file").read_bytes() == (backing / "file").read_bytes()


def seen_now(view: View) -> bool:
    """Whether the file is as the original, or gone like it; what is seen else is an error."""
    original = view.root / "file"
    try:
        content = (view / "file").read_bytes()
    except FileNotFoundError:
        return not original.exists()
    except OSError as error:
        if error.errno != errno.ESTALE:
            raise
        return False
    assert content == original.read_bytes()
    return True


def test_open_files_and_maps_keep_the_old_version(view: View) -> None:
    path = view / "file"
    inode = path.stat().st_ino
    descriptor = os.open(path, os.O_RDONLY)
    mapped = mmap.mmap(descriptor, 0, mmap.MAP_PRIVATE, mmap.PROT_READ)
    assert mapped[:4] == b"old!"
    replace(view.root / "file")
    assert path.read_bytes() == OLD  # nobody has said that it changed
    view.refresh(view.root)
    assert path.read_bytes() == NEW
    assert path.stat().st_ino == (view.root / "file").stat().st_ino != inode
    assert os.fstat(descriptor).st_ino == inode
    assert mapped[:] == OLD
    mapped.close()
    assert read_rest(descriptor, b"") == OLD


def test_refresh_finds_what_is_new_and_what_is_gone(view: View) -> None:
    os.mkdir(view.root / "d")
    (view.root / "d/gone").write_text("x")
    view.refresh(view.root)
    assert os.listdir(view / "d") == ["gone"]
    here = os.open(view / "d", os.O_RDONLY)  # as a program that works there
    try:
        assert not (view / "d/new").exists()
        assert not (view / "other").exists()
        (view.root / "d/new").write_text("new")
        (view.root / "d/gone").unlink()
        (view.root / "other").mkdir()
        assert os.listdir(view / "d") == ["gone"], "an immutable root was looked at again"
        view.refresh(view.root)
        assert os.listdir(view / "d") == os.listdir(here) == ["new"]
        assert (view / "d/new").read_text() == "new"
        assert os.stat("new", dir_fd=here).st_size == 3
        assert not (view / "d/gone").exists()
        assert (view / "other").is_dir()
        # A single name, and nothing else.
        (view.root / "d/third").write_text("3")
        view.refresh(view.root / "d/third")
        assert sorted(os.listdir(view / "d")) == ["new", "third"]
    finally:
        os.close(here)


def test_a_storage_that_fails_gives_its_errors(
    backing: Path, storage: CountingFS, tmp_path: Path
) -> None:
    (backing / "d").mkdir()
    (backing / "file").write_bytes(OLD)
    with bare(storage.at, tmp_path) as view:
        os.stat(view / "file")
        storage.fail("file", "open", errno.EIO)
        with pytest.raises(OSError, match="Input/output") as caught:
            (view / "file").read_bytes()
        assert caught.value.errno == errno.EIO
        storage.fail("file", "open", errno.EACCES)
        with pytest.raises(PermissionError):
            (view / "file").read_bytes()
        storage.heal()
        assert (view / "file").read_bytes() == OLD
        storage.fail("d", "stat", errno.EIO)
        with pytest.raises(OSError, match="Input/output"):
            os.listdir(view / "d")
        storage.heal()
        assert os.listdir(view / "d") == []


def test_a_read_that_fails_in_the_middle_is_no_short_file(
    backing: Path, storage: CountingFS, tmp_path: Path
) -> None:
    (backing / "file").write_bytes(OLD)
    with bare(storage.at, tmp_path) as view:
        descriptor = os.open(view / "file", os.O_RDONLY)
        begin = os.read(descriptor, 4096)
        storage.fail("file", "read", errno.EIO)
        assert read_rest(descriptor, begin) == errno.EIO
        storage.heal()
        assert (view / "file").read_bytes() == OLD
