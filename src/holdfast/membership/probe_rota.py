"""Whom to talk to: everybody in turn, or some at random, at the same cost in any cluster."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection
from math import gcd
from random import Random

from .view import Member, View

#: Up to this many members are simply listed.
_FEW = 16


class ProbeRota:
    """The other live members of a view.

    A round visits everybody once, in strides of a random length from a random beginning: a shuffled
    list without the list, which ten thousand simulated members could not afford. A member that died
    is skipped; the list is made anew when most of it is dead.
    """

    def __init__(self, own: int, view: View) -> None:
        self._own = own
        self._view = view
        self._first: list[Member] = []  # by node; shared with the view, never changed
        self._joined: list[Member] = []
        self._numbers: set[int] = set()  # of those who joined
        self._left = self._place = self._stride = 0
        self._renew()

    def add(self, member: Member) -> None:
        """Visit `member` too; if it is new, in a new round that begins now."""
        place = bisect_left(self._first, member.node, key=lambda m: m.node)
        known = place < len(self._first) and self._first[place].number == member.number
        if not known and member.number not in self._numbers:
            self._joined.append(member)
            self._numbers.add(member.number)
            self._left = 0

    def following(self, rng: Random) -> Member | None:
        """Return the next in turn; None if there is nobody else."""
        count = self._count()
        for _ in range(2 * count):
            if self._left == 0:
                self._left = count
                self._place = int(rng.random() * count)
                self._stride = _stride(count, rng)
            self._left -= 1
            self._place = (self._place + self._stride) % count
            member = self._at(self._place)
            if member.number != self._own and not self._view.is_lost(member.number):
                return member
        return None

    def some(self, count: int, rng: Random, but: Collection[int] = ()) -> list[Member]:
        """Return up to `count` of them at random, none of those whose numbers are in `but`."""
        if self._view.size <= _FEW:
            others = [m for m in self._view.live() if m.number != self._own and m.number not in but]
            return rng.sample(others, min(count, len(others)))
        chosen: list[Member] = []
        total = self._count()
        for _ in range(20 * count):  # each try finds somebody in at least a third of the cases
            member = self._at(int(rng.random() * total))
            number = member.number
            if number == self._own or number in but or self._view.is_lost(number):
                continue
            if member not in chosen:
                chosen.append(member)
                if len(chosen) == count:
                    break
        return chosen

    def _count(self) -> int:
        if self._view.size * 2 < len(self._first) + len(self._joined):
            self._renew()
        return len(self._first) + len(self._joined)

    def _at(self, place: int) -> Member:
        first = self._first
        return first[place] if place < len(first) else self._joined[place - len(first)]

    def _renew(self) -> None:
        self._first = self._view.live()
        self._joined = []
        self._numbers = set()
        self._left = 0


def _stride(count: int, rng: Random) -> int:
    """Return a random length of strides that visits all `count` places."""
    while True:
        stride = 1 + int(rng.random() * count)
        if gcd(stride, count) == 1:
            return stride
