"""Elements of arrays as plain bytes: packed for a put, scattered into what a get returns."""

from __future__ import annotations

import math
import mmap
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import BadInput, Damaged
from .description import Variable
from .layout import CellPart

Array = npt.NDArray[Any]
#: A piece in a file: its start in its cell, how many elements it has, descriptor, size.
FilePiece = tuple[Sequence[int], Sequence[int], int, int]


def raw(array: Array) -> Array:
    """Return the same elements without a type: what pads structures is copied with them."""
    return array.view(f"V{array.dtype.itemsize}")


def packed(elements: Array) -> memoryview:
    """Return elements as contiguous bytes, in C order, without a copy if they are."""
    return np.ascontiguousarray(elements).reshape(-1).view(np.uint8).data


def to_put(variable: Variable, array: npt.ArrayLike) -> Array:
    """Return what somebody puts as an array, if it is of the variable's type."""
    name = variable.name
    if isinstance(array, np.ma.MaskedArray):
        raise BadInput(f"a masked array cannot be put into `{name}`; use its .filled(value)")
    try:
        array = np.asarray(array)
    except (TypeError, ValueError, OverflowError) as error:
        raise BadInput(f"what is put into `{name}` is no array: {error}") from None
    if array.dtype != variable.dtype:
        raise BadInput(
            f"`{name}` has dtype {variable.dtype}, not {array.dtype}; convert the array with "
            "numpy.asarray(..., dtype) first"
        )
    return array


def without_ghosts(variable: Variable, array: Array, widths: Sequence[int]) -> Array:
    """Return an array without its outermost cells."""
    if array.ndim != len(variable.shape):
        raise BadInput(
            f"`{variable.name}` has {len(variable.shape)} dimensions, but the array has "
            f"{array.ndim}"
        )
    if any(n < 2 * width for n, width in zip(array.shape, widths, strict=True)):
        raise BadInput(
            f"an array of shape {array.shape} has no room for {tuple(widths)} ghost cells at each "
            "side"
        )
    return array[
        tuple(slice(width, n - width) for n, width in zip(array.shape, widths, strict=True))
    ]


def check_out(variable: Variable, out: object, shape: tuple[int, ...]) -> Array:
    """Return an array that somebody wants filled, if it can be."""
    what = f"`out` for `{variable.name}`"
    if not isinstance(out, np.ndarray) or isinstance(out, np.ma.MaskedArray):
        raise BadInput(f"{what} is a {type(out).__name__}; use a NumPy array")
    if out.shape != shape or out.dtype != variable.dtype:
        raise BadInput(
            f"{what} has shape {out.shape} and dtype {out.dtype}, but {shape} and "
            f"{variable.dtype} are needed"
        )
    if not out.flags.writeable:
        raise BadInput(f"{what} is read-only; use another")
    if not _are_apart(out):
        raise BadInput(f"{what} has elements that lie in the same memory; use another")
    return np.asarray(out)


def _are_apart(array: Array) -> bool:
    """Whether no two elements overlap, as far as one can see without much ado."""
    extent = array.itemsize
    axes = [(abs(s), n) for s, n in zip(array.strides, array.shape, strict=True) if n > 1]
    for stride, n in sorted(axes):
        if stride < extent:
            return array.size == 0
        extent += stride * (n - 1)
    return True


def scatter(out: Array, part: CellPart, packed_part: Any) -> None:
    """Put packed elements where they belong."""
    out[part.place] = np.frombuffer(packed_part, out.dtype).reshape(part.counts)


def view_of(part: CellPart, pieces: Sequence[FilePiece], dtype: np.dtype[Any]) -> Array | None:
    """Return a box mapped, if there is just one piece of it; of several the later may count."""
    if len(pieces) != 1:
        return None
    (piece,) = pieces
    lows = [want - start for want, start in zip(part.starts, piece[0], strict=True)]
    here = tuple(slice(low, low + n) for low, n in zip(lows, part.counts, strict=True))
    return mapped(piece, np.dtype(f"V{dtype.itemsize}"))[here].view(dtype)


def mapped(piece: FilePiece, dtype: np.dtype[Any]) -> Array:
    """Map a piece read-only; the descriptor may be closed then."""
    _, counts, descriptor, size = piece
    if size != math.prod(counts) * dtype.itemsize:
        raise Damaged(f"a piece has {size} bytes, not {math.prod(counts)} x {dtype.itemsize}")
    file = mmap.mmap(descriptor, size, access=mmap.ACCESS_READ)
    return np.frombuffer(file, dtype).reshape(tuple(counts))
