"""What a mount must not believe for long: files too young to be sure of, names of before."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from mounted import View, bare
from support.waits import WITHIN, wait_for

from holdfast import _core
from holdfast.testing.countfs import CountingFS

OLD, NEW = b"old " * 25, b"new " * 25
#: The default of `file_settled`, as the program is told it.
SETTLED = "order=" + (
    _core.FileOrder(b"", b"", tier=_core.Tier.DISK, settled_ns=60 * 10**9).template.hex()
)


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


@pytest.fixture
def package(view: View) -> Path:
    """A directory whose times are long ago, seen through the mount."""
    directory = view.root / "package"
    directory.mkdir()
    (directory / "first.py").write_text("")
    os.utime(directory, (1, 1))
    view.refresh(directory)
    assert (view / "package").stat().st_mtime == 1
    return directory


@pytest.mark.parametrize("seen", [False, True])
def test_a_directory_has_its_new_times_after_a_refresh(
    view: View, package: Path, seen: bool
) -> None:
    """Also if the listing of the directory above, which is not refreshed, has shown old ones."""
    (package / "more.py").write_text("")
    view.refresh(package / "more.py")
    if seen:
        assert "package" in {entry.name for entry in os.scandir(view.top)}
        subprocess.run(["ls", "-l", view.top], check=True, stdout=subprocess.DEVNULL)
    for _ in range(2):
        found = (view / "package").stat()
        assert found.st_mtime_ns == package.stat().st_mtime_ns
        os.listdir(view / "package")


def test_a_running_interpreter_finds_a_module_that_is_new(view: View, package: Path) -> None:
    program = """
import sys
import threading
sys.path.insert(0, sys.argv[1])
import first
print("begun", flush=True)
sys.stdin.readline()
import second  # found anew because the time of its directory is another
"""
    with subprocess.Popen(
        [sys.executable, "-c", program, view / "package"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "begun\n"
        (package / "second.py").write_text("")
        view.refresh(package / "second.py")
        running.communicate("go\n", timeout=WITHIN)
        assert running.returncode == 0


def test_a_directory_that_never_rests_is_listed(view: View) -> None:
    """It is as whole as a listing of the original would be: what stays there is in it."""
    directory = view.root / "busy"
    directory.mkdir()
    names = {f"file-{number}" for number in range(3000)}
    for name in names:
        (directory / name).touch()
    over = threading.Event()

    def change() -> None:
        while not over.is_set():
            (directory / "comes").touch()
            (directory / "comes").unlink()

    changing = threading.Thread(target=change)
    changing.start()
    try:
        assert names <= set(os.listdir(view / "busy"))
    finally:
        over.set()
        changing.join()


def test_a_name_that_was_missing_where_a_program_stands(view: View) -> None:
    """Whose directory nobody looks up by its path between two refreshes."""
    (view.root / "d/e").mkdir(parents=True)
    here = [os.open(view / name, os.O_RDONLY) for name in ("d", "d/e")]
    try:
        for name in ("first", "second", "third"):
            for directory in here:
                assert not exists(name, directory)
                assert not exists(name, directory)
            for where in ("d", "d/e"):
                (view.root / where / name).touch()
            view.refresh(view.root)
            for directory in here:
                assert exists(name, directory)
        # Once it was looked up, the kernel keeps again what is missing there.
        assert not (view / "d/missing").exists()
        with view.stopped():
            assert not (view / "d/missing").exists()
            assert not exists("missing", here[0])
    finally:
        for directory in here:
            os.close(directory)


def test_a_refresh_that_comes_while_a_name_is_looked_up(
    backing: Path, storage: CountingFS, tmp_path: Path
) -> None:
    """What was listed before it is not told after it, when the kernel would keep it for ever."""
    names = ["one", "two"]
    (backing / "d").mkdir()
    for name in names:
        (backing / "d" / name).write_bytes(OLD)
    # They are looked at in this order.
    first, second = sorted(names, key=lambda name: (backing / "d" / name).stat().st_ino)
    with bare(storage.at, tmp_path) as view:
        here = os.open(view / "d", os.O_PATH)
        storage.hang(f"d/{second}", "stat")
        looking = threading.Thread(target=exists, args=(first, here))
        looking.start()
        try:
            wait_for(lambda: f"d/{second}" in storage.counts())
            with (backing / "d" / first).open("ab") as file:  # its directory stays the same
                file.write(NEW)
            view.refresh(storage.at / "d")
        finally:
            storage.heal()
            looking.join()
        assert os.stat(first, dir_fd=here).st_size == len(OLD + NEW)
        os.close(here)
        assert (view / "d" / first).read_bytes() == OLD + NEW


def exists(name: str, directory: int) -> bool:
    try:
        os.stat(name, dir_fd=directory)
    except FileNotFoundError:
        return False
    return True
