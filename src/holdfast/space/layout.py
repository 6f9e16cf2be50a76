"""Where the parts of an array lie: cells, their order on a Hilbert curve, stripes, keys. Pure.

The *domain* of a variable is cut into *cells* of equal shape; those at its far sides may be
smaller. What a put brings into one cell is a *piece*, an object of its own. Cells that follow one
another on a Hilbert curve form a *stripe*: its units stand on the slots of one window of the roster
(placement/windows.py). All of that stands in the key of a piece, so that nobody looks it up.
"""

from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Iterator, Sequence
from functools import cached_property

import msgspec
import numpy as np
import numpy.typing as npt

from .._core import xxh3_64
from ..placement.windows import PREFIX

#: A cell has at most so many bytes, and is not made smaller than that to give each node some.
_LARGEST_CELL = 4 << 20
_SMALLEST_CELL = 512 << 10
#: Bits of a place on the curve that are compared at once.
_WORD = 63

#: Where it starts and ends, by dimension.
Box = tuple[tuple[int, int], ...]


class CellPart(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody wants of one cell, or puts into it."""

    head: bytes  # of the keys of the cell's pieces
    cell: Box
    starts: tuple[int, ...]  # in the cell, by dimension
    counts: tuple[int, ...]  # of elements
    steps: tuple[int, ...]  # from one to the next
    place: tuple[slice, ...]  # in the array of who asks

    @property
    def box(self) -> Box:
        """The least box of the domain that has it all."""
        return tuple(
            (low + start, low + start + (count - 1) * step + 1)
            for (low, _), start, count, step in zip(
                self.cell, self.starts, self.counts, self.steps, strict=True
            )
        )


class CellLayout:
    """The cells of one variable and the keys of their pieces. Immutable."""

    def __init__(
        self,
        variable: str,
        shape: Sequence[int],
        cell: Sequence[int],
        *,
        survive: int,
        stripe: int,
        roster: str,
        nodes: int,
    ) -> None:
        self.shape = tuple(shape)
        self.cell = tuple(cell)
        self.grid = tuple(-(-n // side) for n, side in zip(shape, cell, strict=True))
        self._stripe = stripe
        self._nodes = nodes
        stripes = -(-math.prod(self.grid) // stripe)
        self._stride = max(1, nodes // stripes)
        self._offset = xxh3_64(variable.encode())
        self._base = PREFIX + f"{roster}/{variable}/{stripe}+{survive}/".encode()

    def parts(self, wanted: Sequence[range], at: Sequence[int] | None = None) -> Iterator[CellPart]:
        """Cut ascending ranges, one by dimension, at the borders of cells.

        Their first element has the place `at` in the array of who asks.
        """
        spans = [
            list(_spans(one, side, n, place))
            for one, side, n, place in zip(
                wanted, self.cell, self.shape, at or [0] * len(wanted), strict=True
            )
        ]
        for spanned in itertools.product(*spans):
            index, cell, starts, counts, steps, place = zip(*spanned, strict=True)
            yield CellPart(
                head=self._head(index, cell),
                cell=cell,
                starts=starts,
                counts=counts,
                steps=steps,
                place=place,
            )

    def _head(self, index: tuple[int, ...], cell: Box) -> bytes:
        turn, unit = divmod(int(self._turns[index]), self._stripe)
        start = (turn * self._stride + self._offset) % self._nodes
        bounds = ",".join(f"{low}:{high}" for low, high in cell)
        return self._base + f"{start}.{unit}/{bounds}".encode()

    @cached_property
    def _turns(self) -> npt.NDArray[np.int64]:
        return hilbert_turns(self.grid)


def _spans(
    wanted: range, side: int, n: int, place: int
) -> Iterator[tuple[int, tuple[int, int], int, int, int, slice]]:
    """Cut one range at the borders of cells: the index of each, and what `CellPart` says of it."""
    done = 0
    while done < len(wanted):
        index = wanted[done] // side
        low, high = index * side, min((index + 1) * side, n)
        count = len(range(wanted[done], min(high, wanted.stop), wanted.step))
        here = slice(place + done, place + done + count)
        step = wanted.step if count > 1 else 1  # one element may lie far from the next cell's
        yield index, (low, high), wanted[done] - low, count, step, here
        done += count


def piece_key(part: CellPart, version: int) -> bytes:
    """Return the key of the piece that a part without steps is, of generation 0."""
    box = itertools.chain(*zip(part.starts, part.counts, strict=True))
    tail = struct.pack(f">Q{2 * len(part.starts)}IH", version, *box, 0)
    return part.head + b"\0" + tail


def units_of_stripe(survive: int, nodes: int) -> int:
    """Return how many cells a stripe has if nobody says it."""
    return min(2 * (survive + 1), nodes - survive) if survive else 1


def cell_shape(shape: Sequence[int], itemsize: int, per_node: int, nodes: int) -> tuple[int, ...]:
    """Halve the longest side until cells are neither large nor few."""
    cell = list(shape)
    while True:
        longest = max(range(len(cell)), key=cell.__getitem__)
        if cell[longest] == 1:
            return tuple(cell)
        halved = [*cell[:longest], -(-cell[longest] // 2), *cell[longest + 1 :]]
        if math.prod(cell) * itemsize <= _LARGEST_CELL:
            cells = math.prod(-(-n // side) for n, side in zip(shape, cell, strict=True))
            enough = cells >= per_node * nodes
            if enough or math.prod(halved) * itemsize < _SMALLEST_CELL:
                return tuple(cell)
        cell = halved


def hilbert_turns(grid: Sequence[int]) -> npt.NDArray[np.int64]:
    """Return at which turn a Hilbert curve meets each cell of a grid.

    The curve runs through a cube whose sides are powers of two; what lies outside the grid is
    skipped. It is Skilling's (Programming the Hilbert curve, 2004), for all cells at once.
    """
    sides = [side for side in grid if side > 1]
    if not sides:
        return np.zeros(grid, np.int64)
    bits = max(side - 1 for side in sides).bit_length()
    x = np.indices(sides, np.int64).reshape(len(sides), -1)
    first = x[0]
    for bit in range(bits - 1, 0, -1):
        low = (1 << bit) - 1
        for i in range(len(x)):
            is_set = x[i] >> bit & 1
            swapped = np.where(is_set, 0, (first ^ x[i]) & low)
            first ^= np.where(is_set, low, swapped)
            x[i] ^= swapped if i else 0
    for i in range(1, len(x)):
        x[i] ^= x[i - 1]
    turned = np.zeros_like(first)
    for bit in range(bits - 1, 0, -1):
        turned ^= np.where(x[-1] >> bit & 1, (1 << bit) - 1, 0)
    x ^= turned
    words: list[npt.NDArray[np.int64]] = []
    for i, (bit, axis) in enumerate(itertools.product(range(bits - 1, -1, -1), x)):
        if i % _WORD == 0:
            words.append(np.zeros_like(first))
        words[-1] = words[-1] << 1 | (axis >> bit & 1)
    turns = np.empty_like(first)
    turns[np.lexsort(words[::-1])] = np.arange(len(turns))
    by_cell: npt.NDArray[np.int64] = turns.reshape(grid)
    return by_cell
