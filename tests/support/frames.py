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
_TREE, _HAND, _SEAL = 16, 19, 20
_CHUNK = 64 << 10
#: A text of no bytes, and its checksum.
_NO_HEADER = bytes(8)
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


class Handed:
    """A file that an agent handed to this process, and the connection that it is bound to."""

    def __init__(self, address: str, key: bytes, size: int, deadline: float = 60.0) -> None:
        self._key, self._deadline = key, deadline
        self._connection = _connected(address, deadline)
        meta = b"\0" + _text(key) + struct.pack("<Q", size) + _NO_HEADER
        answer, descriptors = _exchange(self._connection, _HAND, meta, deadline)
        assert (answer, len(descriptors)) == (b"\1", 1)
        self.descriptor = descriptors[0]

    def ask_to_seal(self, owner: int, data: bytes) -> None:
        """Ask to make it an object with one copy, whose bytes have these checksums."""
        chunks = (data[at : at + _CHUNK] for at in range(0, len(data), _CHUNK))
        sums = b"".join(struct.pack("<I", _core.crc32c(chunk)) for chunk in chunks)
        meta = _text(self._key) + struct.pack("<BHQHH", 0, 1, owner, 0, 0) + _NO_HEADER
        self._connection.sendall(_frame(_SEAL, meta, self._deadline, sums))

    def sealed(self) -> None:
        """Wait for the answer."""
        _answer(self._connection, _SEAL)


def _text(text: bytes) -> bytes:
    return len(text).to_bytes(4, "little") + text


def _frame(operation: int, meta: bytes, deadline: float, body: bytes = b"") -> bytes:
    crc, milliseconds = _core.crc32c(body), int(deadline * 1000)
    flags = 0 if body else _DESCRIPTOR
    fields = (b"HLDF", 1, operation, flags, 0, 0, len(meta), 7, len(body), crc, milliseconds)
    head = _HEADER.pack(*fields, 0, 0)[:40]
    return head + struct.pack("<II", _core.crc32c(meta, _core.crc32c(head)), 0) + meta + body


def _ask(address: str, operation: int, meta: bytes, deadline: float) -> tuple[bytes, int]:
    try:
        with _connected(address, deadline) as connection:
            answer, descriptors = _exchange(connection, operation, meta, deadline)
    except TimeoutError as error:
        raise errors.DeadlineMissed(f"{address} is silent") from error
    except OSError as error:
        raise errors.Unavailable(f"{address} is gone: {error}") from error
    (descriptor,) = descriptors
    return answer, descriptor


def _connected(address: str, deadline: float) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.settimeout(deadline)
        connection.connect(address.removeprefix("unix:"))
    except OSError:
        connection.close()
        raise
    return connection


def _exchange(
    connection: socket.socket, operation: int, meta: bytes, deadline: float
) -> tuple[bytes, array.array[int]]:
    connection.sendall(_frame(operation, meta, deadline))
    flags, answer, descriptors = _answer(connection, operation)
    assert flags == _REPLY | _DESCRIPTOR
    return answer, descriptors


def _answer(connection: socket.socket, operation: int) -> tuple[int, bytes, array.array[int]]:
    descriptors = array.array("i")
    head = _receive(connection, _HEADER.size, descriptors)
    _, _, replied, flags, status, _, size, request, *_ = _HEADER.unpack(head)
    answer = _receive(connection, size, descriptors)
    assert (replied, request) == (operation, 7)
    if status != 0:
        reader = Reader(answer)
        _at, message = reader.text(), reader.text()
        raise getattr(errors, _ERRORS[status - 1])(message.decode())
    return flags, answer, descriptors


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
