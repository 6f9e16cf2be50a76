"""Blocks, and the ranges that they are grouped in.

Every rank submits one run of consecutive blocks. A run is cut into ranges of equally many blocks,
its last range may be shorter; so a range has one submitter, and ranges follow the order of blocks.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..errors import BadInput
from .permutation import Flags, Ints


class Pieces(NamedTuple):
    """Runs of blocks, each inside one range; an entry per piece in each array."""

    ranges: Ints
    first: Ints
    counts: Ints

    def pick(self, which: Ints | Flags) -> Pieces:
        """Return some of the pieces."""
        return Pieces(self.ranges[which], self.first[which], self.counts[which])


NO_PIECES = Pieces(*(np.empty(0, np.int64) for _ in range(3)))


class Layout:
    """Runs of blocks by rank, `first[i]` and `count[i]`, in ranges of `per_range` blocks."""

    def __init__(self, first: Ints, count: Ints, per_range: int) -> None:
        order = np.lexsort((count, first))
        starts, counts = first[order], count[order]
        ends = starts + counts
        if len(starts) and (starts[0] != 0 or (starts[1:] != ends[:-1]).any()):
            wrong = int(np.flatnonzero(np.append(0, ends[:-1]) != starts)[0])
            raise BadInput(
                f"the blocks of rank {order[wrong]} start at {starts[wrong]}, but those before it "
                f"end at {ends[wrong - 1] if wrong else 0}; runs must follow on one another "
                "without gaps or overlaps"
            )
        filled = counts > 0
        #: The rank that submitted each run; empty runs are left out.
        self.submitters = order[filled]
        self.per_range = per_range
        self.blocks = int(ends[-1]) if len(ends) else 0
        self._starts, self._counts = starts[filled], counts[filled]
        ranges = -(-self._counts // per_range)
        self._bases = np.cumsum(ranges) - ranges
        self.ranges = int(ranges.sum())

    def run_of(self, ranges: Ints) -> Ints:
        """Return the index in `submitters` of the run that each range belongs to."""
        return np.searchsorted(self._bases, ranges, side="right") - 1

    def ranges_of(self, rank: int) -> Ints:
        """Return the ranges that `rank` submitted."""
        run = np.flatnonzero(self.submitters == rank)
        if not len(run):
            return np.empty(0, np.int64)
        base = int(self._bases[run[0]])
        return np.arange(base, base - (-int(self._counts[run[0]]) // self.per_range))

    def whole(self, ranges: Ints) -> Pieces:
        """Return the blocks of each range."""
        run = self.run_of(ranges)
        offset = (ranges - self._bases[run]) * self.per_range
        count = np.minimum(self.per_range, self._counts[run] - offset)
        return Pieces(ranges, self._starts[run] + offset, count)

    def range_at(self, blocks: Ints) -> Ints:
        """Return the range that each block lies in."""
        run = np.searchsorted(self._starts, blocks, side="right") - 1
        return np.asarray(self._bases[run] + (blocks - self._starts[run]) // self.per_range)

    def cut(self, first: Ints, count: Ints) -> tuple[Pieces, Ints]:
        """Cut requests at the borders of ranges; return the pieces and the request of each."""
        asked = np.flatnonzero(count > 0)
        first, count = first[asked], count[asked]
        if not len(first):
            return NO_PIECES, np.empty(0, np.int64)
        head, tail = self.range_at(first), self.range_at(first + count - 1)
        parts = tail - head + 1
        request = np.repeat(np.arange(len(first)), parts)
        ranges = (
            head[request] + np.arange(len(request)) - np.repeat(np.cumsum(parts) - parts, parts)
        )
        _, start, length = self.whole(ranges)
        low = np.maximum(start, first[request])
        high = np.minimum(start + length, (first + count)[request])
        return Pieces(ranges, low, high - low), asked[request]


def joined(first: Ints, count: Ints) -> list[tuple[int, int]]:
    """Return ascending runs of blocks as (first, count), neighbours joined."""
    if not len(first):
        return []
    breaks = np.flatnonzero(first[1:] != first[:-1] + count[:-1]) + 1
    heads = np.append(0, breaks)
    ends = (first + count)[np.append(breaks, len(first)) - 1]
    return list(zip(first[heads].tolist(), (ends - first[heads]).tolist(), strict=True))
