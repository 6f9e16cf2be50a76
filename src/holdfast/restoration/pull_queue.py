"""What we own and lack: a queue of copies to fetch, as fast as the rate allows."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Container, Iterator

import msgspec

from .holdings import ObjectSummary

#: How many copies are fetched at the same time, as long as they are small: those are bound by round
#: trips. One large one at a time keeps a node busy, and leaves some of it to readers.
_PARALLEL = 8
_SMALL = 1 << 20  # bytes, of all that are under way
#: What could not be fetched from anybody is avoided for this many seconds: where a store is full
#: the same copies would otherwise be begun over and over.
_REST = 5.0


class Lack(msgspec.Struct):
    """An object that we lack, and members that hold it."""

    held: ObjectSummary
    sources: list[int]
    due: float  # when it may be fetched; 0: at once
    failed: set[int] = set()  # of those that were asked lately


class PullQueue:
    """The queue, and an allowance of bytes that grows by `rate` per second."""

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self._allowance = rate
        self._grown = 0.0
        self._lacks: dict[bytes, Lack] = {}
        self._queue: deque[bytes] = deque()  # keys to be fetched
        self._running: dict[int, Lack] = {}  # by ticket
        self._under_way = 0  # bytes
        self._resting: dict[bytes, float] = {}  # until when
        self._rested: list[tuple[float, bytes]] = []  # a heap of the same; some rest no longer
        self.missing_bytes = 0
        self.bytes = 0  # fetched so far
        self.copies = 0

    def add(self, held: ObjectSummary, source: int, due: float) -> None:
        """Note that we lack an object that `source` holds; the first time says when it is due."""
        lack = self._lacks.get(held.key)
        if lack is None:
            self._lacks[held.key] = Lack(held, [source], due)
            self._queue.append(held.key)
            self.missing_bytes += held.size
        elif source not in lack.sources:
            lack.sources.append(source)
            if source not in lack.failed and self._resting.pop(held.key, None) is not None:
                self._queue.append(held.key)

    def keep(self, wanted: Callable[[ObjectSummary], bool]) -> None:
        """Owners have changed: forget what has a delay and is not `wanted` any more.

        If it is wanted again, its delay begins anew.
        """
        gone = [one for one in self._lacks.values() if one.due and not wanted(one.held)]
        for lack in gone:
            self._resting.pop(lack.held.key, None)
            self._forget(lack)
        if gone:
            self._queue = deque(key for key in self._queue if key in self._lacks)

    def start(
        self,
        now: float,
        live: Container[int],
        wanted: Callable[[ObjectSummary], bool],
        ticket: Callable[[], int],
    ) -> Iterator[tuple[int, ObjectSummary, int]]:
        """Yield what to fetch now: ticket, object and source.

        What is not `wanted` any more, or has no `live` source, is forgotten.
        """
        self._allowance += (now - self._grown) * self.rate
        self._allowance = min(self._allowance, self.rate)  # a second's worth at most
        self._grown = now
        while self._rested and self._rested[0][0] <= now:
            until, key = heapq.heappop(self._rested)
            if self._resting.get(key) == until:
                del self._resting[key]
                self._lacks[key].failed.clear()
                self._queue.append(key)
        while self._queue and self._allowance > 0:
            if len(self._running) == _PARALLEL or self._under_way >= _SMALL:
                break
            key = self._queue.popleft()
            lack = self._lacks[key]
            lack.sources = [source for source in lack.sources if source in live]
            if not lack.sources or not wanted(lack.held):
                self._forget(lack)
                continue
            if lack.due > now:
                self._rest(key, lack.due)
                continue
            self._allowance -= lack.held.size
            number = ticket()
            self._running[number] = lack
            self._under_way += lack.held.size
            yield number, lack.held, lack.sources[0]

    def done(self, ticket: int, size: int) -> None:
        """One has arrived."""
        lack = self._end(ticket)
        if lack is not None:
            self._forget(lack)
            self.bytes += size
            self.copies += 1

    def failed(self, ticket: int, now: float, gone: bool = False) -> None:
        """One did not arrive: its next source is asked, if there is one.

        `gone`: the source has it no more, most likely because it was dropped.
        """
        lack = self._end(ticket)
        if lack is None or not self._knows(lack):
            return
        key = lack.held.key
        source = lack.sources.pop(0)
        if not gone:
            lack.failed.add(source)
        if lack.sources:
            self._queue.append(key)
        elif not lack.failed:
            self._forget(lack)
        else:  # the next comparison knows whether anybody still has it
            self._rest(key, now + _REST)

    def _end(self, ticket: int) -> Lack | None:
        lack = self._running.pop(ticket, None)
        if lack is not None:
            self._under_way -= lack.held.size
        return lack

    def _rest(self, key: bytes, until: float) -> None:
        self._resting[key] = until
        heapq.heappush(self._rested, (until, key))

    def _knows(self, lack: Lack) -> bool:
        """Whether it was not forgotten, and perhaps found anew, while it was being fetched."""
        return self._lacks.get(lack.held.key) is lack

    def _forget(self, lack: Lack) -> None:
        if self._knows(lack):
            del self._lacks[lack.held.key]
            self.missing_bytes -= lack.held.size

    def __len__(self) -> int:
        return len(self._lacks)
