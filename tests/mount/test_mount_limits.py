"""A mount whose process reaches a limit of the system goes on with what it has."""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from mounted import View, bare
from support.waits import WITHIN, wait_for

from holdfast.files.mount import control
from holdfast.testing.countfs import CountingFS

#: More than there are threads that wait, or stacks of threads that have ended.
READERS = 60
#: Threads of the process that do not answer the kernel.
OTHERS = 5
#: The most that answer it, as native/mount/workers.cpp has it.
THREADS = 400


#: Less than the buffer of a thread.
LITTLE = 1 << 19


def leave_room(view: View, stacks: int) -> None:
    """Let the process allocate so many stacks and little else (root may start any threads)."""
    pid = view.pid
    used = 1024 * int(Path(f"/proc/{pid}/status").read_text().split("VmSize:")[1].split()[0])
    stack, _ = resource.getrlimit(resource.RLIMIT_STACK)
    assert stack == resource.RLIM_INFINITY or stack >= 8 << 20
    room = LITTLE + stacks * (2 << 20 if stack == resource.RLIM_INFINITY else stack)
    resource.prlimit(pid, resource.RLIMIT_AS, (used + room, resource.RLIM_INFINITY))


def threads(view: View) -> int:
    return len(list(Path(f"/proc/{view.pid}/task").iterdir()))


@pytest.mark.parametrize("stacks", [0, 1])
def test_threads_that_cannot_be_started(
    backing: Path, storage: CountingFS, tmp_path: Path, stacks: int
) -> None:
    names = [f"file-{number}" for number in range(READERS)]
    for name in names:
        (backing / name).write_text(name)
    with bare(storage.at, tmp_path) as view, ThreadPoolExecutor(READERS) as pool:
        for name in names:
            assert (view / name).stat().st_size == len(name)
        leave_room(view, stacks)
        storage.hang("", "open")
        try:
            reading = [pool.submit((view / name).read_text) for name in names]
            # All are busy. One that was just ending may have left its stack to another.
            wait_for(lambda: storage.total().opens == threads(view) - OTHERS)
            assert control.ask(view.control, "ping", within=WITHIN)  # it lives, and says so
            assert threads(view) < READERS
        finally:
            storage.heal()
        assert [one.result(WITHIN) for one in reading] == names


def test_a_mount_whose_threads_are_all_busy_is_not_stuck(backing: Path, tmp_path: Path) -> None:
    """Only one that answers nobody is: a slow storage must not get it aborted."""
    (backing / "file").touch()
    with (
        CountingFS(backing, tmp_path / "slow", operation_delay="1 ms") as slow,
        bare(slow.at, tmp_path) as view,
        ThreadPoolExecutor(THREADS + 100) as pool,
    ):
        over = threading.Event()
        answered: list[None] = []

        def look() -> None:
            """Ask for what always comes from the storage, again and again."""
            while not over.is_set():
                with contextlib.suppress(OSError):
                    os.getxattr(view / "file", "user.none")
                answered.append(None)

        def pinged() -> bytes:
            return control.ask(view.control, "ping", within=WITHIN)[0]

        looking = [pool.submit(look) for _ in range(THREADS + 100)]
        try:
            wait_for(lambda: threads(view) >= THREADS + OTHERS)
            pinged()
            before = len(answered)
            wait_for(lambda: len(answered) > before + 10)
            assert pinged() == b"well"
        finally:
            over.set()
        for one in looking:
            one.result(WITHIN)


@pytest.mark.parametrize("wrong", ["control", "point"])
def test_a_mount_that_cannot_begin_says_why_and_ends(tmp_path: Path, wrong: str) -> None:
    """Although threads of it run already."""
    (tmp_path / "root").mkdir()
    (tmp_path / "mnt").mkdir()
    words = {"point": tmp_path / "mnt", "broadcast": tmp_path / "root", "control": tmp_path / "c"}
    words[wrong] = tmp_path / ("x" * 150)
    done = subprocess.run(
        [control.PROGRAM, *(f"{name}={value}" for name, value in words.items())],
        cwd="/",
        capture_output=True,
        text=True,
        timeout=WITHIN,
    )
    assert done.returncode == 1
    assert "x" * 150 in done.stdout
    assert done.stderr == ""
