"""One version of a data set: where its blocks are, and the part of them that this rank holds."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from .blocks import Bytes
from .buffers import Buffers
from .held_ranges import HeldRanges
from .layout import TABULATED, Layout, contains, distinct, joined
from .permutation import Flags, Ints
from .placement import Placement
from .wire import address_of

_NONE = np.empty(0, np.int64)


def _nothing() -> HeldRanges:
    return HeldRanges(_NONE, _NONE, Buffers())


class Lengths:
    """The lengths of all blocks in some held ranges, summed up."""

    def __init__(self, index: HeldRanges) -> None:
        lengths = np.empty(int(index.sizes.sum()) // 8, np.int64)
        target = address_of(lengths)
        for address, size in zip(index.addresses.tolist(), index.sizes.tolist(), strict=True):
            ctypes.memmove(target, address, size)
            target += size
        self._ends = np.append(0, np.cumsum(lengths))
        self._bases = np.append(0, np.cumsum(index.sizes // 8))

    def of_ranges(self) -> Ints:
        """Return the bytes of each range."""
        return np.asarray(np.diff(self._ends[self._bases]))

    def inside(self, where: Ints, before: Ints, count: Ints) -> tuple[Ints, Ints]:
        """Return, for `count` blocks after the first `before` of a range, offset and bytes."""
        base = self._bases[where]
        start = self._ends[base + before]
        return start - self._ends[base], self._ends[base + before + count] - start


class Version:
    """Blocks of `block_bytes` bytes, or of lengths of their own (None), over `places`.

    A *place* is a rank of the program as it started, or the spare that took over from it. Slot s
    of the placement is the place `places[s]`. `settled` are the slots that the placement passes
    over; `lacking` those that hold nothing, because their rank died since.
    """

    def __init__(
        self,
        number: int,
        layout: Layout,
        placement: Placement,
        places: Ints,
        block_bytes: int | None,
    ) -> None:
        self.number = number
        self.layout = layout
        self.placement = placement
        self.places = places
        self.block_bytes = block_bytes
        self.settled: Flags = np.zeros(len(places), np.bool_)
        self.lacking: Flags = np.zeros(len(places), np.bool_)
        self._bad = _NONE
        #: Who serves each range to this rank, as long as nothing changes.
        self._my_servers: Ints | None = None
        self.hold(_nothing(), _nothing() if block_bytes is None else None)

    def __getstate__(self) -> dict[str, Any]:
        """Describe the version to a rank that holds nothing of it."""
        empty = Version(self.number, self.layout, self.placement, self.places, self.block_bytes)
        kept = {key: self.__dict__[key] for key in ("settled", "lacking", "_bad")}
        return empty.__dict__ | kept

    @property
    def bytes(self) -> int:
        """Memory that this rank gives to it."""
        return self.data.bytes + (self.index.bytes if self.index is not None else 0)

    @property
    def buffers(self) -> list[Bytes]:
        """The memory itself."""
        return self.data.buffers + (self.index.buffers if self.index is not None else [])

    # Where copies are.

    def holders(self, ranges: Ints, order: Ints | None = None) -> Ints:
        """Return the slots that can serve each range, a row of r with -1 for copies not there."""
        slots = self.placement.holders(ranges, self.settled, order)
        slots[(slots >= 0) & self.lacking[slots]] = -1
        if len(self._bad):
            slots[contains(self._bad, self._key(ranges[:, None], slots))] = -1
        return slots

    def servers(self, ranges: Ints, requesters: Ints, ranks: Ints) -> Ints:
        """Return who serves each range to each requester: itself if it can, -1 if nobody can.

        `ranks` gives the rank of each place. Requests for all that there is, each rank asking for
        what another submitted, and requests by all for the same come out even.
        """
        by_slot = np.append(ranks[self.places], -1)
        order = self.placement.order(ranges)
        candidates = by_slot[self.holders(ranges, order)]
        live = candidates >= 0
        copies = live.sum(axis=1)
        turn = self.layout.run_of(ranges) - requesters
        if self.placement.permuted:
            turn = turn + order
        turn %= np.maximum(copies, 1)
        chosen = (np.cumsum(live, axis=1) > turn[:, None]).argmax(axis=1)
        result = candidates[np.arange(len(ranges)), chosen]
        result[copies == 0] = -1
        return np.where((candidates == requesters[:, None]).any(axis=1), requesters, result)

    def my_servers(self, ranges: Ints, me: int, ranks: Ints) -> Ints:
        """Return who serves each range to rank `me`, this one."""
        if self.layout.ranges > TABULATED:
            return self.servers(ranges, np.full(len(ranges), me), ranks)
        if self._my_servers is None:
            everything = np.arange(self.layout.ranges)
            self._my_servers = self.servers(everything, np.full(len(everything), me), ranks)
        return self._my_servers[ranges]

    def lost(self) -> list[tuple[int, int]]:
        """Return the blocks of which no copy is left, as (first, count)."""
        ranges = self.touched(self.lacking)
        gone = ranges[(self.holders(ranges) < 0).all(axis=1)]
        _, first, count = self.layout.whole(gone)
        return joined(first, count)

    def touched(self, slots: Flags) -> Ints:
        """Return the ranges that any change of `slots` may concern, and those with bad copies."""
        return distinct(
            self.placement.held_first_by(slots | self.settled), self._bad // len(self.places)
        )

    def lose(self, places: Ints) -> None:
        """Note that what these places held is gone, and that ranks have new numbers."""
        self._my_servers = None
        self.lacking |= contains(places, self.places)

    def condemn(self, slots: Ints, ranges: Ints) -> None:
        """Note that these copies are damaged; they count as lost."""
        self._my_servers = None
        self._bad = distinct(self._bad, self._key(ranges, slots))

    def settle(self, dead: Flags, lost: Ints) -> None:
        """Note that all but `lost` is where the placement says when it passes over `dead`."""
        self._my_servers = None
        self.settled = dead
        self.lacking = dead.copy()
        slots = self.placement.holders(lost, dead)
        self._bad = distinct(self._key(lost[:, None], slots)[slots >= 0])

    def _key(self, ranges: Ints, slots: Ints) -> Ints:
        return ranges * len(self.places) + slots

    # What this rank holds.

    def hold(self, data: HeldRanges, index: HeldRanges | None) -> None:
        """Take this as what the rank holds; `index` has the lengths of blocks of variable size."""
        self.data = data
        self.index = index
        _, self._firsts, self._counts = self.layout.whole(data.ids)
        self._lengths = Lengths(_nothing() if index is None else index)

    def sizes(self, ranges: Ints) -> Ints:
        """Return the bytes of each range, all blocks being of one size."""
        return self.layout.whole(ranges).counts * self._fixed

    def find(self, first: Ints) -> Ints:
        """Return the index in `data` of the range that each block lies in; all must be held."""
        return self._firsts.searchsorted(first, "right") - 1

    def is_whole(self, where: Ints, count: Ints) -> Flags:
        """Tell where `count` blocks of the ranges at `where` are all that they have."""
        return np.equal(self._counts[where], count)

    def spans(self, where: Ints, first: Ints, count: Ints) -> tuple[Ints, Ints]:
        """Return where blocks of the ranges at `where` lie here, and how many bytes they are."""
        before = first - self._firsts[where]
        if self.index is None:
            low, length = before * self._fixed, count * self._fixed
        else:
            low, length = self._lengths.inside(where, before, count)
        return self.data.addresses[where] + low, length

    def index_spans(self, where: Ints, first: Ints, count: Ints) -> tuple[Ints, Ints]:
        """Return where the lengths of these blocks lie here, and how many bytes they take."""
        assert self.index is not None
        return self.index.addresses[where] + 8 * (first - self._firsts[where]), 8 * count

    @property
    def _fixed(self) -> int:
        assert self.block_bytes is not None
        return self.block_bytes
