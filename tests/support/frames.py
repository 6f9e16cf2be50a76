"""The protocol as a program of the same host speaks it, written down a second time.

docs/reference/protocol.md has the layout. Over a Unix socket there is no handshake, and a reply may
bring a descriptor.
"""

from __future__ import annotations

import array
import os
import socket
import struct

from holdfast import _core, errors

_HEADER = struct.Struct("<4sBBHHHIQQIIII")
_REPLY, _DESCRIPTOR = 1, 4
_TREE = 16
_MOST_HOPS = 16
_ATTRIBUTES = struct.Struct("<3I8Q")
#: By number, from 1.
_ERRORS = (
    "HoldfastError", "BadInput", "KeyExists", "NotFound", "Unavailable", "DeadlineMissed", "Busy",
    "Full", "Refused", "Damaged", "StaleView", "Dropped", "NotCached",
)  # fmt: skip

Attributes = tuple[int, ...]


class Reader:
    """Fields one after the other."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def take(self, size: int) -> bytes:
        assert self._at + size <= len(self._data), "a field is cut short"
        self._at += size
        return self._data[self._at - size : self._at]

    def number(self) -> int:
        """A number of 32 bits."""
        return int.from_bytes(self.take(4), "little")

    def text(self) -> bytes:
        return self.take(self.number())

    def attributes(self) -> Attributes:
        return _ATTRIBUTES.unpack(self.text())


def listing(document: bytes) -> dict[str, Attributes]:
    """The names in a directory, and their attributes."""
    reader = Reader(document)
    assert reader.number() == 1
    reader.attributes()
    found = {}
    for _ in range(reader.number()):
        name = os.fsdecode(reader.text())
        found[name] = reader.attributes()
        reader.text()
    return found


def tree(
    address: str, kind: int, root: bytes, path: bytes, part: int = 0, settled_ns: int = 0,
    deadline: float = 60.0,
) -> tuple[int, Attributes]:  # fmt: skip
    """Ask an agent for what a broadcast brings, as mounts do: a descriptor and attributes."""
    meta = bytes([kind]) + _text(root) + _text(path)
    meta += struct.pack("<IQBBB", part, settled_ns, _MOST_HOPS, 0, 0)
    answer, descriptor = _ask(address, _TREE, meta, deadline)
    return descriptor, _ATTRIBUTES.unpack(answer)


def _text(text: bytes) -> bytes:
    return len(text).to_bytes(4, "little") + text


def _frame(operation: int, meta: bytes, deadline: float) -> bytes:
    fields = (b"HLDF", 1, operation, _DESCRIPTOR, 0, 0, len(meta), 7, 0, 0, int(deadline * 1000))
    head = _HEADER.pack(*fields, 0, 0)[:40]
    return head + struct.pack("<II", _core.crc32c(meta, _core.crc32c(head)), 0) + meta


def _ask(address: str, operation: int, meta: bytes, deadline: float) -> tuple[bytes, int]:
    descriptors = array.array("i")
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(deadline)
        try:
            connection.connect(address.removeprefix("unix:"))
            connection.sendall(_frame(operation, meta, deadline))
            head = _receive(connection, _HEADER.size, descriptors)
            _, _, replied, flags, status, _, size, request, *_ = _HEADER.unpack(head)
            answer = _receive(connection, size, descriptors)
        except TimeoutError as error:
            raise errors.DeadlineMissed(f"{address} is silent") from error
        except OSError as error:
            raise errors.Unavailable(f"{address} is gone: {error}") from error
    assert (replied, request) == (operation, 7)
    if status != 0:
        reader = Reader(answer)
        _at, message = reader.text(), reader.text()
        raise getattr(errors, _ERRORS[status - 1])(message.decode())
    assert flags == _REPLY | _DESCRIPTOR
    (descriptor,) = descriptors
    return answer, descriptor


def _receive(connection: socket.socket, size: int, descriptors: array.array[int]) -> bytes:
    data = b""
    while len(data) < size:
        more, passed, _, _ = connection.recvmsg(size - len(data), socket.CMSG_SPACE(4))
        if not more:
            raise ConnectionResetError("it closed the connection")
        data += more
        for _, _, bytes_of in passed:
            descriptors.frombytes(bytes_of)
    return data
