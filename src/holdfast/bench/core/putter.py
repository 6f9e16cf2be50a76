"""One client process of the comparison of large puts with plain copies.

Reads a `PutterTask` from its standard input and then, line by line, what to do; answers each line
when that is done.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
from pathlib import Path

import msgspec

from ... import config as settings
from ...job import Job

#: What the servers of native/bench are asked with, the size first.
_REQUEST = struct.Struct("<Q56x")


class PutterTask(msgspec.Struct, frozen=True):
    """Where to put, and where to receive from."""

    directory: str  # of the session
    node: str
    server: str  # tcp:HOST:PORT
    size: int


def _receive(connection: socket.socket, into: memoryview) -> None:
    connection.sendall(_REQUEST.pack(len(into)))
    while into:
        into = into[connection.recv_into(into) :]


def main() -> None:
    """Serve until standard input ends."""
    task = msgspec.json.decode(sys.stdin.readline(), type=PutterTask)
    host, _, port = task.server.removeprefix("tcp:").rpartition(":")
    source = memoryview(os.urandom(task.size))
    target = memoryview(bytearray(task.size))
    target[:] = source  # so that its pages are there
    config = settings.load().config
    with (
        Job(Path(task.directory), config, task.node) as job,
        socket.create_connection((host, int(port))) as connection,
    ):
        _receive(connection, target)
        print(flush=True)
        for line in sys.stdin:
            match line.split():
                case ["copy"]:
                    target[:] = source
                case ["receive"]:
                    _receive(connection, target)
                case ["put", key, copies]:
                    job.objects.put(key, source, copies=int(copies))
                case ["drop", key]:
                    job.objects.drop(key)
            print(flush=True)
