"""File systems that are read-only: a storage that is serves, and where we must write is said."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.commands import HOLDFAST, run_at, run_in
from support.requirements import needs_storage

SETTINGS = ("--memory", "64 MiB", "--disk", "64 MiB")

#: Each way to change something, and what the program is told.
CHANGES = """
import os, sys
root = sys.argv[1]
file, there = f"{root}/file", f"{root}/directory"
ways = {
    "write": lambda: open(file, "wb"),
    "append": lambda: open(file, "ab"),
    "both": lambda: os.open(file, os.O_RDWR),
    "create": lambda: open(f"{root}/new", "xb"),
    "truncate": lambda: os.truncate(file, 1),
    "rename": lambda: os.rename(file, f"{root}/new"),
    "unlink": lambda: os.unlink(file),
    "link": lambda: os.link(file, f"{root}/new"),
    "symlink": lambda: os.symlink(file, f"{root}/new"),
    "mkdir": lambda: os.mkdir(f"{root}/new"),
    "rmdir": lambda: os.rmdir(there),
    "chmod": lambda: os.chmod(file, 0o600),
    "utime": lambda: os.utime(file),
    "xattr": lambda: os.setxattr(file, "user.x", b"y"),
    "of a copy": lambda: os.fchmod(os.open(file, os.O_RDONLY), 0o600),
}
for name, way in ways.items():
    try:
        print(name, way())
    except OSError as error:
        print(name, error)
with open(file, "rb") as read:
    print(read.read(20), os.fstat(read.fileno()))
"""

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="mounting needs root")


class ReadOnly:
    """A directory that nobody can write to, and one for a session."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.at, self.run = top / "at", top / "run"

    def holdfast(self, command: str, *arguments: str, code: int = 0) -> str:
        return run_at(self.run, command, "--set", "file_settled=0 s", *arguments, code=code)


@pytest.fixture
def place() -> Iterator[ReadOnly]:
    with tempfile.TemporaryDirectory() as made:  # a short path: sockets lie below it
        place = ReadOnly(Path(made))
        (place.at / "directory").mkdir(parents=True, mode=0o700)
        (place.at / "local").mkdir()
        place.at.chmod(0o700)
        (place.at / "file").write_bytes(b"of the storage" * 10_000)
        subprocess.run(["mount", "--bind", place.at, place.at], check=True)
        try:
            subprocess.run(["mount", "-o", "remount,bind,ro", place.at], check=True)
            yield place
        finally:
            run_in(place.run / "local", HOLDFAST, "down")
            subprocess.run(["umount", "--lazy", place.at], check=True)


def test_a_storage_that_is_read_only_serves_as_ever(place: ReadOnly) -> None:
    place.holdfast("up", "--nodes", "2", *SETTINGS)
    changes = [sys.executable, "-c", CHANGES, str(place.at)]
    plain = subprocess.run(changes, capture_output=True, check=True, text=True, timeout=60).stdout
    assert plain.count("Read-only file system") == len(plain.splitlines()) - 1
    assert "1 file is cached" in place.holdfast("warm", str(place.at))
    for node in ("node-0", "node-1"):  # one of them has the copy
        through = ["run", "--set", f"node={node}", "--root", str(place.at), "--"]
        assert place.holdfast(*through, "cat", f"{place.at}/file").startswith("of the storage")
        assert place.holdfast(*through, *changes) == plain


@needs_storage
def test_it_can_be_mounted(place: ReadOnly) -> None:
    point = place.top / "point"
    point.mkdir()
    place.holdfast("up", "--nodes", "2", *SETTINGS)
    place.holdfast("mount", str(point), "--root", str(place.at))
    try:
        shown = Path(f"{point}{place.at}", "file")
        assert shown.read_bytes() == (place.at / "file").read_bytes()
    finally:
        place.holdfast("umount", str(point))


@pytest.mark.parametrize("setting", ["memory_dir", "disk_dir"])
def test_tiers_are_made_elsewhere(place: ReadOnly, setting: str) -> None:
    told = place.holdfast("up", "--nodes", "1", "--set", f"{setting}={place.at}", code=2)
    assert told.startswith("holdfast: the agent of node-0 did not start: cannot create the tier")
    assert told.endswith(f": Read-only file system; set another {setting}\n")
    assert told.count("\n") == 1
    assert not (place.run / "local").exists()


def test_sessions_lie_elsewhere(place: ReadOnly) -> None:
    sentence = "holdfast: cannot keep sessions in {}: Read-only file system; set another run_dir\n"
    for below in (place.at / "directory", place.at / "new", place.at):
        place.run = below  # the last has something of the session's name, which cannot be removed
        told = place.holdfast("up", "--nodes", "1", code=2)
        assert told == sentence.format(below)


@needs_storage
def test_nothing_is_mounted_for_a_session_that_became_read_only(place: ReadOnly) -> None:
    point = place.top / "point"
    point.mkdir()
    place.holdfast("up", "--nodes", "1", *SETTINGS)
    subprocess.run(["mount", "--bind", place.run, place.run], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", place.run], check=True)
        told = place.holdfast("mount", str(point), "--root", str(place.at), code=2)
    finally:
        subprocess.run(["umount", place.run], check=True)
    assert told == (
        f"holdfast: could not mount at {point}: cannot write "
        f"{place.run}/local/node-0.mount-0.log: Read-only file system\n"
    )
