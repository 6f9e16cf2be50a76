"""Gossip: news that is still to be told to others, and how often it was told already."""

from __future__ import annotations

from heapq import nsmallest

from .view import Entry

#: How many entries travel in one message.
MOST = 8


class Gossip:
    """A queue of entries, the least told first; a later entry replaces that of the same member."""

    def __init__(self) -> None:
        self.waiting: dict[int, Entry] = {}  # by number of the member
        self._told: dict[int, int] = {}
        self._next: list[Entry] | None = []

    def add(self, entry: Entry) -> None:
        """Tell `entry` from now on."""
        number = entry.member.number
        self.waiting[number] = entry
        self._told[number] = 0
        self._next = None

    def news(self) -> list[Entry]:
        """Return what the next message shall carry; do not change the list."""
        if self._next is None:
            if len(self.waiting) <= MOST:
                self._next = list(self.waiting.values())
            else:
                least = nsmallest(MOST, self._told, key=self._told.__getitem__)
                self._next = [self.waiting[number] for number in least]
        return self._next

    def take(self, times: int) -> list[Entry]:
        """Return what to tell now; whatever was told `times` times is not told again."""
        news = self.news()
        if len(self.waiting) > MOST:
            self._next = None
        for entry in news:
            number = entry.member.number
            self._told[number] += 1
            if self._told[number] >= times:
                del self.waiting[number], self._told[number]
                self._next = None
        return news
