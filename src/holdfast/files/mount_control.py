"""Asking the process behind a mount, on its socket (native/mount/control.hpp)."""

from __future__ import annotations

import errno
import os
import socket
import struct
import time
from pathlib import Path


def ask(control: Path, *fields: str | bytes, within: float) -> list[bytes]:
    """Return what it answers within so many seconds; OSError if it does not."""
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
