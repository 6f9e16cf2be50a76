"""Blocks, the ranges that they are grouped in, and sets of either as sorted arrays.

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


NO_PIECES = Pieces(*(np.empty(0, np.int64) for _ in range(3)))

#: Up to this many ranges, what follows from the number of a range is tabulated: in numpy it is the
#: number of calls that counts. More are computed each time, so that memory does not grow with the
#: number of ranks.
TABULATED = 1 << 16


class Layout:
    """Runs of blocks by rank, `first[i]` and `count[i]`, in ranges of `per_range` blocks."""

    def __init__(self, first: Ints, count: Ints, per_range: int) -> None:
        order = np.lexsort((count, first))
        starts, counts = first[order], count[order]
        ends = starts + counts
        if len(starts) and (starts[0] != 0 or (starts[1:] != ends[:-1]).any()):
            wrong = int(np.flatnonzero(np.append(0, ends[:-1]) != starts)[0])
            raise BadInput(
                f"the blocks of rank {order[wrong]} start at {starts[wrong]}, but those "
                f"before it end at {ends[wrong - 1] if wrong else 0}; runs must be "
                "contiguous, without gaps or overlaps"
            )
        filled = counts > 0
        #: The rank that submitted each run; empty runs are left out.
        self.submitters = order[filled]
        self.per_range = per_range
        self.blocks = int(ends[-1]) if len(ends) else 0
        self._starts, self._ends = starts[filled], ends[filled]
        ranges = -(-counts[filled] // per_range)
        self._bases = np.cumsum(ranges) - ranges
        self.ranges = int(ranges.sum())
        self._table: Ints | None = None
        if self.ranges <= TABULATED:
            everything = np.arange(self.ranges + 1) if self.ranges else self._bases
            self._table = self._computed_first(everything)

    def run_of(self, ranges: Ints) -> Ints:
        """Return the index in `submitters` of the run that each range belongs to."""
        return np.searchsorted(self._bases, ranges, side="right") - 1

    def ranges_of(self, rank: int) -> Ints:
        """Return the ranges that `rank` submitted."""
        run = np.flatnonzero(self.submitters == rank)
        if not len(run):
            return np.empty(0, np.int64)
        borders = np.append(self._bases, self.ranges)
        return np.arange(borders[run[0]], borders[run[0] + 1])

    def first_of(self, ranges: Ints) -> Ints:
        """Return the first block of each range; that of a range after the last is `blocks`."""
        return self._computed_first(ranges) if self._table is None else self._table[ranges]

    def _computed_first(self, ranges: Ints) -> Ints:
        run = self.run_of(ranges)
        first = self._starts[run] + (ranges - self._bases[run]) * self.per_range
        return np.asarray(np.minimum(first, self._ends[run]))

    def whole(self, ranges: Ints) -> Pieces:
        """Return the blocks of each range."""
        first = self.first_of(ranges)
        return Pieces(ranges, first, self.first_of(ranges + 1) - first)

    def range_at(self, blocks: Ints) -> Ints:
        """Return the range that each block lies in."""
        if self._table is not None:
            return self._table.searchsorted(blocks, "right") - 1
        run = np.searchsorted(self._starts, blocks, side="right") - 1
        return np.asarray(self._bases[run] + (blocks - self._starts[run]) // self.per_range)

    def cut(self, first: Ints, count: Ints) -> tuple[Pieces, Ints]:
        """Cut requests at the borders of ranges; return the pieces and how many each came to."""
        if len(count) == 1 and count[0]:
            pieces = self._cut_one(int(first[0]), int(first[0] + count[0]))
            return pieces, np.array([len(pieces.ranges)])
        asked = count.nonzero()[0]
        parts = np.zeros(len(count), np.int64)
        if not len(asked):
            return NO_PIECES, parts
        first, last = first[asked], (first + count)[asked]
        edges = self.range_at(np.concatenate((first, last - 1)))
        head, tail = edges[: len(asked)], edges[len(asked) :]
        number = tail - head + 1
        parts[asked] = number
        ends = number.cumsum()
        begins = ends - number
        ranges = np.arange(ends[-1]) + (head - begins).repeat(number)
        low = self.first_of(ranges)
        high = np.empty_like(low)
        high[:-1] = low[1:]
        low[begins], high[ends - 1] = first, last
        return Pieces(ranges, low, high - low), parts

    def _cut_one(self, first: int, last: int) -> Pieces:
        """Do the same for a single request, the usual case, with fewer calls."""
        head, tail = self.range_at(np.array([first, last - 1])).tolist()
        ranges = np.arange(head, tail + 1)
        low = self.first_of(ranges)
        high = np.empty_like(low)
        low[0], high[-1] = first, last
        high[:-1] = low[1:]
        return Pieces(ranges, low, high - low)


def joined(first: Ints, count: Ints) -> list[tuple[int, int]]:
    """Return ascending runs of blocks as (first, count), neighbours joined."""
    if not len(first):
        return []
    breaks = np.flatnonzero(first[1:] != first[:-1] + count[:-1]) + 1
    heads = np.append(0, breaks)
    ends = (first + count)[np.append(breaks, len(first)) - 1]
    return list(zip(first[heads].tolist(), (ends - first[heads]).tolist(), strict=True))


# numpy's own functions for sets import a large module when they are first used: in the middle of a
# recovery, that takes longer than everything else.


def distinct(*parts: Ints) -> Ints:
    """Return all values in `parts`, each once, in ascending order."""
    values = np.sort(np.concatenate([part.ravel() for part in parts]))
    new = np.ones(len(values), np.bool_)
    new[1:] = values[1:] != values[:-1]
    return values[new]


def contains(those: Ints, values: Ints) -> Flags:
    """Tell which of `values` are among `those`, which are in ascending order."""
    if not len(those):
        return np.zeros(values.shape, np.bool_)
    return np.asarray(those[np.minimum(those.searchsorted(values), len(those) - 1)] == values)
