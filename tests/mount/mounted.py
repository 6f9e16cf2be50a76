"""Mounts for tests: the bare program, or all of it through the agent of a node."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

from support.settings import config_of
from support.waits import WITHIN, wait_for

import holdfast
from holdfast.files.mount import control
from holdfast.session import mounts


class View:
    """What a mount shows."""

    def __init__(self, point: Path, root: Path, control: Path) -> None:
        self.point, self.root, self.control = point, root, control
        self.top = Path(f"{point}{root}")

    def __truediv__(self, name: str) -> Path:
        return self.top / name

    @property
    def pid(self) -> int:
        """The process that serves it."""
        mounted = control.at(self.point)
        assert mounted is not None
        pid = control.server(mounted)
        assert pid is not None
        return pid

    def counters(self) -> dict[str, int]:
        fields = control.ask(self.control, "status", within=WITHIN)
        return {name.decode(): int(n) for name, _, n in (one.partition(b"=") for one in fields)}

    def refresh(self, path: str | Path) -> None:
        control.ask(self.control, "refresh", str(path), within=WITHIN)

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        """Nothing is answered by the mount's process meanwhile."""
        pid = self.pid
        os.kill(pid, signal.SIGSTOP)
        wait_for(lambda: Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T")
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)


@contextlib.contextmanager
def bare(root: Path, work: Path, *words: str) -> Iterator[View]:
    """Mount a directory without any agent."""
    point, socket = work / "mnt", work / "control"
    point.mkdir(exist_ok=True)
    process = subprocess.Popen(
        [
            str(control.PROGRAM),
            f"point={point}",
            f"broadcast={root}",
            f"control={socket}",
            *words,
        ],
        stdout=subprocess.PIPE,
        cwd="/",
        text=True,
    )
    try:
        assert process.stdout is not None
        with process.stdout as said:
            assert said.readline() == "mounted\n"
        yield View(point, root, socket)
    finally:
        process.send_signal(signal.SIGCONT)
        process.terminate()
        process.wait(WITHIN)
        socket.unlink(missing_ok=True)


@contextlib.contextmanager
def through(
    cluster: holdfast.LocalCluster, point: Path, root: Path, node: int = 0, **changed: str
) -> Iterator[View]:
    """Mount a directory through the agent of a node, with a supervisor."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(point)
    config = config_of(cluster, node, **changed)
    control.start(config, str(point), [str(root)])
    found = control.of_session(cluster.directory)
    socket = next(path for path, one in found.items() if one.point == str(point))
    try:
        yield View(point, root, socket)
    finally:
        control.stop_all(cluster.directory)


def ours() -> list[Path]:
    return [one.point for one in mounts.table() if one.kind == control.TYPE]


def fill(directory: Path) -> None:
    """Make a tree with a bit of everything."""
    sizes = (0, 1, 4095, 4096, 4097, 131071, 131072, 131073, 1 << 20, (1 << 20) + 1)
    (directory / "sizes").mkdir(parents=True)
    for size in sizes:
        (directory / "sizes" / str(size)).write_bytes(os.urandom(size))
    (directory / "deep/er/still").mkdir(parents=True)
    (directory / "deep/er/still/file").write_text("down here")
    (directory / "name with blank, ü and \udcff").write_text("odd")
    (directory / ("n" * 255)).write_text("long name")
    (directory / "empty").mkdir()
    (directory / "file").write_text("content")
    (directory / "exec").write_text("#!/bin/sh\necho run\n")
    (directory / "exec").chmod(0o755)
    (directory / "secret").write_text("for nobody")
    (directory / "secret").chmod(0o000)
    os.link(directory / "sizes/4097", directory / "deep/hard")
    (directory / "relative").symlink_to("deep/er")
    (directory / "dangling").symlink_to("nowhere/at/all")
    (directory / "absolute").symlink_to(directory / "deep/er/still/file")
    (directory / "outside").symlink_to("/etc")
    with (directory / "sparse").open("wb") as file:
        file.truncate(8 << 20)
        file.seek(3 << 20)
        file.write(b"in the middle")
    os.utime(directory / "exec", ns=(1, 1_234_567_890_123_456_789))


def map_shared(path: Path) -> bytes:
    """Read a file through a shared mapping."""
    import mmap

    descriptor = os.open(path, os.O_RDONLY)
    try:
        with mmap.mmap(descriptor, 0, mmap.MAP_SHARED, mmap.PROT_READ) as mapped:
            return mapped[:]
    finally:
        os.close(descriptor)
