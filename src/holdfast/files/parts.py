"""Large files of other nodes, part by part: a program reads the first before the last has come."""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from .. import _core

if TYPE_CHECKING:
    from typing_extensions import Buffer


class Part(NamedTuple):
    """A descriptor of some bytes of a file, or of all."""

    descriptor: int
    version: tuple[int, ...]  # inode, size, mtime and ctime of the file
    begin: int
    size: int
    original: bool  # the file of the shared file system itself, which may change

    @classmethod
    def passed(cls, opened: _core.OpenedFile) -> Part:
        """Take what an agent has passed."""
        of = opened.attributes
        version = (of.inode, of.size, of.mtime_ns, of.ctime_ns)
        return cls(opened.descriptor, version, opened.begin, opened.size, False)

    @classmethod
    def source(cls, path: bytes) -> Part:
        """Open the file of the shared file system."""
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        version = _version(descriptor)
        return cls(descriptor, version, 0, version[1], True)

    @property
    def is_whole(self) -> bool:
        """Whether no byte of the file is missing."""
        return self.original or self.size == self.version[1]


class PartFile(io.RawIOBase):
    """Holds one part at a time. Who asks for a descriptor makes it fetch the whole file."""

    mode = "rb"

    def __init__(
        self, name: str, first: Part, fetch: Callable[[int], Part], whole: Callable[[], Part]
    ) -> None:
        self.name = name
        self._part: Part | None = first
        self._version = first.version
        self._fetch = fetch
        self._whole = whole
        self._position = 0
        self._descriptor = -1  # of the whole file

    @property
    def size(self) -> int:
        """How many bytes the file has."""
        return self._version[1]

    def readable(self) -> bool:
        """Whether it can be read."""
        return True

    def seekable(self) -> bool:
        """Whether it can be read at any position."""
        return True

    def readinto(self, buffer: Buffer) -> int:
        """Read some bytes, at most to the end of a part."""
        self._checkClosed()
        room = memoryview(buffer).cast("B")
        if self._descriptor >= 0:
            return os.readv(self._descriptor, [room])
        if self._position >= self.size or not room:
            return 0
        part = self._held()
        room = room[: part.begin + part.size - self._position]
        got = os.preadv(part.descriptor, [room], self._position - part.begin)
        # Looked at after the bytes were read: had it been written to before, this would show it.
        if got == 0 or (part.original and _version(part.descriptor) != self._version):
            raise self._changed()
        self._position += got
        return got

    def readall(self) -> bytes:
        """Read all that is left."""
        content, room = io.BytesIO(), memoryview(bytearray(_core.PART_BYTES))
        while got := self.readinto(room):
            content.write(room[:got])
        return content.getvalue()

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go to another position."""
        self._checkClosed()
        if self._descriptor >= 0:
            return os.lseek(self._descriptor, offset, whence)
        position = offset + {0: 0, 1: self._position, 2: self.size}[whence]
        if position < 0:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        self._position = position
        return position

    def fileno(self) -> int:
        """Fetch the whole file, and from now on be a descriptor of it."""
        self._checkClosed()
        if self._descriptor < 0:
            whole = self._same(self._whole())
            os.lseek(whole.descriptor, self._position, os.SEEK_SET)
            self._descriptor = whole.descriptor
            self._drop()
        return self._descriptor

    def close(self) -> None:
        """Let go of what it holds."""
        if not self.closed:
            self._drop()
            if self._descriptor >= 0:
                os.close(self._descriptor)
        super().close()

    def _held(self) -> Part:
        """Return the part in which the position lies."""
        part = self._part
        if part is None or not part.begin <= self._position < part.begin + part.size:
            self._drop()  # its memory may serve for the next
            part = self._part = self._same(self._fetch(self._position // _core.PART_BYTES))
        return part

    def _same(self, part: Part) -> Part:
        if part.version != self._version:
            os.close(part.descriptor)
            raise self._changed()
        return part

    def _changed(self) -> OSError:
        return OSError(errno.ESTALE, "the file changed while it was read", self.name)

    def _drop(self) -> None:
        part, self._part = self._part, None
        if part is not None:
            os.close(part.descriptor)


def _version(descriptor: int) -> tuple[int, ...]:
    now = os.fstat(descriptor)
    return now.st_ino, now.st_size, now.st_mtime_ns, now.st_ctime_ns
