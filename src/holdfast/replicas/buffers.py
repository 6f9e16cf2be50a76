"""The memory of versions: that of one which has gone is used again for the next."""

from __future__ import annotations

import mmap

import numpy as np

from .blocks import Bytes
from .wire import address_of

#: Touching fresh memory once per huge page is cheaper than letting MPI do it page by page.
_HUGE_PAGE = 2 << 20
#: Where in a page numpy begins a large array. Copying is up to four times slower when the target
#: lies a little further in its page than the source does, so ours begin there, too.
_OFFSET = 16
#: Less is not worth keeping.
_LEAST = 1 << 20
_FREE: int = getattr(mmap, "MADV_FREE", 0)


class Buffers:
    """Hands out memory and takes it back.

    The system zeroes fresh pages, which takes about as long as filling them. What was given back is
    free for the system to take (MADV_FREE), and it does so when memory gets short; until then it
    is still there, and the next version does without fresh pages.
    """

    def __init__(self) -> None:
        self._idle: list[Bytes] = []

    @property
    def idle(self) -> int:
        """Bytes that were given back and not yet taken again, by us or by the system."""
        return sum(buffer.nbytes for buffer in self._idle)

    def take(self, size: int) -> Bytes:
        """Return at least `size` bytes with any content; raises MemoryError."""
        if size < _LEAST:
            return np.empty(size, np.uint8)
        for index, buffer in enumerate(self._idle):
            if size <= buffer.nbytes <= size + size // 4:
                return self._idle.pop(index)
        for index, buffer in enumerate(self._idle):
            if buffer.nbytes > size:
                # Both parts go on beginning at the same place in a page.
                cut = (buffer.nbytes - size) // mmap.PAGESIZE * mmap.PAGESIZE
                self._idle[index] = buffer[:cut]
                return buffer[cut:]
        try:
            memory = mmap.mmap(-1, _OFFSET + size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except OSError as error:
            raise MemoryError(f"not enough memory for {size} bytes") from error
        memory.madvise(mmap.MADV_HUGEPAGE)
        fresh = np.frombuffer(memory, np.uint8, offset=_OFFSET)
        fresh[::_HUGE_PAGE] = 0
        return fresh

    def reserve(self, size: int) -> None:
        """Lay aside memory that the system has zeroed already, unless as much lies idle."""
        if size >= _LEAST and self.idle < size:
            ahead = self.take(size)
            ahead.fill(0)
            self.give([ahead], self.idle + ahead.nbytes)

    def give(self, buffers: list[Bytes], most: int) -> None:
        """Take back memory that nobody uses any more; keep at most `most` bytes of it."""
        for buffer in buffers:
            memory = _mapping(buffer)
            if memory is not None and buffer.nbytes >= _LEAST and _FREE:
                memory.madvise(_FREE, *_pages(buffer, memory))
                self._idle.append(buffer)
        while self.idle > most:
            self._idle.pop(0)


def _mapping(buffer: Bytes) -> mmap.mmap | None:
    """Return what the buffer, or the one that it is a part of, lies in; None if numpy made it."""
    base = buffer.base
    while isinstance(base, np.ndarray):
        base = base.base
    return base.obj if isinstance(base, memoryview) and isinstance(base.obj, mmap.mmap) else None


def _pages(buffer: Bytes, memory: mmap.mmap) -> tuple[int, int]:
    """Return start and length of the whole pages that the buffer covers."""
    first = address_of(buffer) - address_of(np.frombuffer(memory, np.uint8))
    start = -(-first // mmap.PAGESIZE) * mmap.PAGESIZE
    end = (first + buffer.nbytes) // mmap.PAGESIZE * mmap.PAGESIZE
    return start, end - start
