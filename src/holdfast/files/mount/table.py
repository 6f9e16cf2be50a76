"""Mounts of ours as the kernel has them, and the processes behind them, on their sockets."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import struct
import time
from pathlib import Path

from ...session import mounts
from ...session.mounts import TYPE, Mounted

PROGRAM = Path(__file__).with_name("bin") / "holdfast_mount"
_SOURCE = "holdfast-"  # and the pid of the process that serves it


def ours() -> list[Mounted]:
    """Return all of this host; later ones lie on top."""
    return [one for one in mounts.table() if one.kind == TYPE]


def server(mounted: Mounted) -> int | None:
    """Return the process behind a mount; None if it has ended."""
    pid = mounted.source.removeprefix(_SOURCE)
    with contextlib.suppress(OSError):
        if pid.isdigit() and PROGRAM.name in os.path.basename(os.readlink(f"/proc/{pid}/exe")):
            return int(pid)
    return None


def control_of(pid: int) -> str:
    """Return the socket of a process behind a mount: whose it is."""
    with contextlib.suppress(OSError):
        for word in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
            if word.startswith(b"control="):
                return os.fsdecode(word.removeprefix(b"control="))
    return ""


def at(point: Path) -> Mounted | None:
    """Return the mount of ours that lies on top at a path."""
    there = [one for one in mounts.table() if one.point == point]
    return there[-1] if there and there[-1].kind == TYPE else None


def remove_stale() -> None:
    """Remove mounts of ours whose process was killed: they only give errors."""
    for one in reversed(ours()):
        if server(one) is None:
            try:
                os.stat(one.point)
            except OSError as error:
                if error.errno == errno.ENOTCONN:
                    with contextlib.suppress(OSError):
                        mounts.unmount(one.point)


def ask(control: Path, *fields: str | bytes, within: float) -> list[bytes]:
    """Ask the process behind a mount (native/mount/control.hpp); OSError without an answer."""
    frame = b"".join(os.fsencode(field) + b"\0" for field in fields)
    end = time.monotonic() + within
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(within)
        connection.connect(str(control))
        connection.sendall(struct.pack("=I", len(frame)) + frame)
        (length,) = struct.unpack("=I", _exactly(connection, 4, end))
        return _exactly(connection, length, end).split(b"\0")[:-1]


def _exactly(connection: socket.socket, size: int, end: float) -> bytes:
    data = b""
    while len(data) < size:
        connection.settimeout(max(end - time.monotonic(), 1e-3))
        more = connection.recv(size - len(data))
        if not more:
            raise ConnectionResetError(errno.ECONNRESET, "a mount has ended")
        data += more
    return data
