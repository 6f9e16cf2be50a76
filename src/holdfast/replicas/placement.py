"""Where the copies of every range lie: computed from a few numbers, never looked up.

Ranks stand in *slots* 0 .. p-1, ordered by host. Copy k of range x lies in slot

    L(x, k) = floor(pi(x) * p / n) + floor(k * p / r)  mod p        for k < r,

pi a seeded permutation of the n ranges (or the identity). Copies of one range are at least p // r
slots apart, so on different hosts whenever no host has more than p // r of the ranks. Where
slots are dead, each range goes on along a probing sequence of its own, so that the copies of a
dead slot spread over all that live; the sequence is one of two:

    A: (f(x) + k * h(x)) mod p, with h(x) coprime to p (double hashing)
    B: a Feistel permutation of [0, p) for each x
"""

from __future__ import annotations

from math import gcd

import numpy as np

from .layout import distinct
from .permutation import CHUNK, Flags, Ints, Permutation, below, permuted_by_each

_F, _H, _B = 101, 211, 307  # salts that keep the hash functions apart


class Placement:
    """Copies of `ranges` ranges over the slots of `hosts` (a host number for each slot)."""

    def __init__(
        self, ranges: int, hosts: Ints, copies: int, seed: int, permute: bool, distribution: str
    ) -> None:
        self.ranges = ranges
        self.hosts = hosts
        self.slots = len(hosts)
        self.copies = copies
        self.seed = seed
        self.distribution = distribution
        self._permutation = Permutation(ranges, seed) if permute else None
        self._shifts = np.arange(copies, dtype=np.int64) * self.slots // copies
        self._steps = np.array([h for h in range(1, self.slots + 1) if gcd(h, self.slots) == 1])

    @property
    def permuted(self) -> bool:
        """Whether ranges are permuted before they are dealt out."""
        return self._permutation is not None

    def order(self, ids: Ints) -> Ints:
        """pi(x): the position of each range among all."""
        return ids if self._permutation is None else self._permutation.forward(ids)

    def first_slots(self, ids: Ints) -> Ints:
        """L(x, k) for each range and k < r: a row per range."""
        return self._slots_at(self.order(ids))

    def _slots_at(self, order: Ints) -> Ints:
        slots = np.empty((len(order), self.copies), np.int64)
        for start in range(0, len(order), CHUNK):
            first = order[start : start + CHUNK] * self.slots // max(self.ranges, 1)
            part = first[:, None] + self._shifts
            part -= (part >= self.slots) * self.slots
            slots[start : start + CHUNK] = part
        return slots

    def holders(self, ids: Ints, dead: Flags, order: Ints | None = None) -> Ints:
        """Return the slots of each range, a row of r, when the slots in `dead` are passed over.

        Rows are filled up with -1 where fewer than r slots live. `order` saves computing it again.
        """
        slots = self._slots_at(self.order(ids) if order is None else order)
        if not dead.any():
            return slots
        slots[dead[slots]] = -1
        short = np.flatnonzero((slots < 0).any(axis=1))
        if len(short):
            slots[short] = self._probe(ids[short], slots[short], dead)
        return slots

    def held_by(self, slot: int, dead: Flags) -> Ints:
        """Return the ranges of `slot`, in ascending order."""
        if dead[slot]:
            return np.empty(0, np.int64)
        own = self._first_ranges(slot)
        if dead.any():
            moved = self.held_first_by(dead)
            inherited = (self.holders(moved, dead) == slot).any(axis=1)
            own = distinct(own, moved[inherited])
        return own

    def held_first_by(self, slots: Flags) -> Ints:
        """Return the ranges of which some copy k < r lies in one of `slots`, ascending."""
        parts = [self._first_ranges(int(slot)) for slot in np.flatnonzero(slots)]
        return distinct(*parts) if parts else np.empty(0, np.int64)

    def _first_ranges(self, slot: int) -> Ints:
        parts = []
        for shift in self._shifts.tolist():
            first = (slot - shift) % self.slots
            # order * slots // ranges == first, solved for order.
            low, high = (-(-s * self.ranges // self.slots) for s in (first, first + 1))
            parts.append(np.arange(low, high, dtype=np.int64))
        order = np.concatenate(parts)
        return np.sort(order if self._permutation is None else self._permutation.inverse(order))

    def _probe(self, ids: Ints, slots: Ints, dead: Flags) -> Ints:
        """Fill the gaps of `slots` from each range's sequence, other hosts before known ones."""
        live_hosts = len(distinct(self.hosts[~dead]))
        wanted = min(self.copies, int((~dead).sum()))
        slots = -np.sort(-slots, axis=1)  # gaps to the right
        for new_host_only in (True, False):
            filled = (slots >= 0).sum(axis=1)
            for k in range(self.slots):
                open_rows = filled < wanted
                if new_host_only:
                    open_rows &= self._hosts_in(slots) < live_hosts
                rows = np.flatnonzero(open_rows)
                if not len(rows):
                    break
                candidate = self._sequence(ids[rows], k)
                held = slots[rows]
                taken = (held == candidate[:, None]).any(axis=1) | dead[candidate]
                if new_host_only:
                    same = self.hosts[held] == self.hosts[candidate][:, None]
                    taken |= (same & (held >= 0)).any(axis=1)
                rows, candidate = rows[~taken], candidate[~taken]
                slots[rows, filled[rows]] = candidate
                filled[rows] += 1
        return slots

    def _hosts_in(self, slots: Ints) -> Ints:
        hosts = np.sort(np.where(slots >= 0, self.hosts[slots], -1), axis=1)
        new = np.diff(hosts, axis=1, prepend=-1) != 0
        return np.asarray(new.sum(axis=1), np.int64)

    def _sequence(self, ids: Ints, k: int) -> Ints:
        if self.distribution == "B":
            return permuted_by_each(ids, k, self.slots, self.seed + _B)
        start = below(ids, self.seed + _F, self.slots)
        # Drawing h(x) from the numbers coprime to p is what trying seed after seed comes to.
        step = self._steps[below(ids, self.seed + _H, len(self._steps))]
        return np.asarray((start + k * step) % self.slots)
