"""Blocks, and what else users pass in, checked and turned into arrays."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import BadInput
from .permutation import Ints

Bytes = npt.NDArray[np.uint8]


def as_whole(value: Any, what: str, least: int) -> int:
    """Return a whole number of at least `least`."""
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if not least <= number < 2**62:
        raise BadInput(f"{what} is {value!r}; it must be a whole number of at least {least}")
    return number


def as_name(name: Any) -> str:
    """Return the name of a data set."""
    if not isinstance(name, str):
        raise BadInput(f"the name of a data set must be a str, not {name!r:.60}")
    return name


def as_bytes(data: Any, what: str = "data") -> Bytes:
    """Return the bytes of any buffer or array; copied only where they are not contiguous."""
    try:
        array = np.asarray(data if hasattr(data, "__array__") else memoryview(data))
    except MemoryError:
        raise
    except Exception as error:  # of the user's object; all ranks must hear of it
        raise BadInput(
            f"{what} is a {type(data).__name__}, not bytes, a buffer or a numeric array "
            f"in this process's memory ({error})"
        ) from error
    if array.dtype.hasobject:
        raise BadInput(f"{what} holds Python objects; serialise them first (submit_many)")
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def as_writable(out: Any) -> Bytes:
    """Return the bytes of a buffer that results are to be put into."""
    try:
        array = np.asarray(out if hasattr(out, "__array__") else memoryview(out))
    except Exception as error:  # of the user's object; all ranks must hear of it
        raise BadInput(f"out is a {type(out).__name__}, not a buffer or an array") from error
    if not array.flags.writeable or not array.flags.c_contiguous or array.dtype.hasobject:
        raise BadInput("out must be a writable, contiguous buffer of plain numbers or bytes")
    return array.reshape(-1).view(np.uint8)


def as_ranges(ranges: Iterable[tuple[int, int]], blocks: int) -> tuple[Ints, Ints]:
    """Return first and count of each requested range, checked against the number of blocks."""
    try:
        ranges = ranges if isinstance(ranges, np.ndarray) else list(ranges)
        if len(ranges) == 1 and (one := _as_one(ranges[0], blocks)) is not None:
            return one
        table = np.asarray(ranges if len(ranges) > 0 else np.empty((0, 2), np.int64))
    except Exception as error:  # of the user's iterator; all ranks must hear of it
        raise BadInput(
            f"ranges must be a list of pairs (first, count), not {ranges!r:.60}"
        ) from error
    if table.ndim != 2 or table.shape[1] != 2 or table.dtype.kind not in "iu":
        raise BadInput(f"ranges must be pairs of whole numbers (first, count), not {ranges!r:.60}")
    first, count = table.astype(np.int64, copy=False).T
    left = blocks - first
    # Negative if any of the four is.
    wrong = ((first | count | left | (left - count)) < 0).nonzero()[0]
    if len(wrong):
        low, n = first[wrong[0]], count[wrong[0]]
        raise BadInput(
            f"range ({low}, {n}) reaches outside the {blocks} blocks that were submitted"
        )
    return first, count


def _as_one(pair: Any, blocks: int) -> tuple[Ints, Ints] | None:
    """Do the same for a single range, the usual case, with fewer calls; None if it is wrong."""
    match pair:
        case int(first), int(count) if 0 <= first <= blocks and 0 <= count <= blocks - first:
            return np.array([first], np.int64), np.array([count], np.int64)
    return None


def as_blocks(blocks: Iterable[Any]) -> tuple[Bytes, Ints]:
    """Return blocks given one by one as one array, and their lengths."""
    parts = [as_bytes(block, "a block") for block in blocks]
    lengths = np.fromiter((part.nbytes for part in parts), np.int64, len(parts))
    return (np.concatenate(parts) if parts else np.empty(0, np.uint8)), lengths


class Blocks(Sequence[memoryview]):
    """Blocks in the order in which they were asked for, each a view into `data`."""

    def __init__(self, data: Bytes, lengths: Ints) -> None:
        self.data = data
        self._ends = np.append(0, np.cumsum(lengths))

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        position = range(len(self))[index]
        return self.data.data[self._ends[position] : self._ends[position + 1]]
