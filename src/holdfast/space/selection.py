"""What of an array people ask for, as ascending ranges by dimension. Pure."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterator, Sequence
from types import EllipsisType
from typing import Any, Literal, NamedTuple

from ..errors import BadInput
from .description import Variable, whole_numbers
from .layout import Box

Edge = Literal["clip", "wrap"]
Ranges = tuple[range, ...]


class Selection(NamedTuple):
    """Ranges that are read, and what becomes of each dimension then."""

    ranges: Ranges
    flips: tuple[slice, ...]  # where the array is filled backwards
    keeps: tuple[int | slice | EllipsisType, ...]  # 0: the dimension is left out


class Region(NamedTuple):
    """Ranges, and where their first element stands in the array that is asked for."""

    ranges: Ranges
    at: tuple[int, ...]


def show(box: Box) -> str:
    """Return a box as people write it."""
    return ", ".join(f"{low}:{high}" for low, high in box)


def ranges_of_box(variable: Variable, box: object) -> Ranges:
    """Read a box, which must lie in the domain; None: all of it."""
    if isinstance(box, list):
        box = tuple(box)
    items = _by_dimension(variable, () if box is None else box)
    ranges = []
    for axis, item in enumerate(items):
        bounds = item
        if isinstance(item, slice):
            if item.step not in {None, 1}:
                raise BadInput(
                    f"the box of `{variable.name}` has a step in {variable.dimension(axis)}; use "
                    f'space["{variable.name}", version][...] for steps'
                )
            stop = variable.shape[axis] if item.stop is None else item.stop
            bounds = (0 if item.start is None else item.start, stop)
        numbers = whole_numbers(bounds, f"the box of `{variable.name}`")
        if len(numbers) != 2:
            raise BadInput(
                f"the box of `{variable.name}` has {item!r} in {variable.dimension(axis)}; use a "
                "slice, such as numpy.s_[0:10, :], or a pair of start and stop"
            )
        ranges.append(inside(variable, axis, *numbers))
    return tuple(ranges)


def inside(variable: Variable, axis: int, start: int, stop: int) -> range:
    """Return a range of one dimension if it lies in the domain."""
    if not 0 <= start <= stop <= variable.shape[axis]:
        raise BadInput(
            f"box {start}:{stop} of `{variable.name}` leaves its shape {variable.shape} in "
            f"{variable.dimension(axis)}"
        )
    return range(start, stop)


def with_halo(
    variable: Variable, ranges: Ranges, halo: int | Sequence[int], edge: Edge
) -> tuple[tuple[int, ...], list[Region]]:
    """Widen a box to all sides, beyond the domain from its other side or not at all.

    Returns the shape that it has then, and where each part of it comes from.
    """
    if edge not in {"clip", "wrap"}:
        raise BadInput(f"there is no edge {edge!r}; use 'clip' or 'wrap'")
    widths = widths_of(variable, halo, "halo")
    shape, segments = [], list[list[tuple[range, int]]]()
    for one, width, n in zip(ranges, widths, variable.shape, strict=True):
        start, stop = one.start - width, one.stop + width
        if edge == "clip":
            start, stop = max(start, 0), min(stop, n)
        shape.append(stop - start)
        segments.append(list(_around(start, stop, n)))
    chosen = (zip(*each, strict=True) for each in itertools.product(*segments))
    return tuple(shape), [Region(*each) for each in chosen]


def _around(start: int, stop: int, n: int) -> Iterator[tuple[range, int]]:
    """Cut a range of a periodic dimension where it starts anew; with what lies before each."""
    here = start
    while here < stop:
        count = min(n - here % n, stop - here)
        yield range(here % n, here % n + count), here - start
        here += count


def widths_of(variable: Variable, widths: int | Sequence[int], what: str) -> tuple[int, ...]:
    """Return one width for each dimension."""
    numbers = whole_numbers(widths, f"the {what} of `{variable.name}`")
    if len(numbers) == 1:
        numbers *= len(variable.shape)
    if len(numbers) != len(variable.shape) or min(numbers) < 0:
        raise BadInput(
            f"the {what} of `{variable.name}` is {widths!r}; use a width that is at least 0, or "
            f"one for each of {len(variable.shape)} dimensions"
        )
    return numbers


def selection(variable: Variable, index: object) -> Selection:
    """Read what stands in brackets, as NumPy does."""
    ranges, flips, keeps = [], [], list[int | slice | EllipsisType]()
    for axis, item in enumerate(_by_dimension(variable, index)):
        n = variable.shape[axis]
        whole = slice(None)
        if isinstance(item, slice):
            one = range(n)[_whole(variable, item)]
            ranges.append(one if one.step > 0 else one[::-1])
            flips.append(whole if one.step > 0 else slice(None, None, -1))
            keeps.append(whole)
            continue
        place = _index(variable, item)
        if not -n <= place < n:
            raise BadInput(
                f"index {place} leaves the shape {variable.shape} of `{variable.name}` in "
                f"{variable.dimension(axis)}"
            )
        ranges.append(range(place % n, place % n + 1))
        flips.append(whole)
        keeps.append(0)
    if isinstance(index, tuple) and any(item is ... for item in index):
        keeps.append(...)  # no scalar comes of it
    return Selection(tuple(ranges), tuple(flips), tuple(keeps))


def _whole(variable: Variable, item: slice) -> slice:
    for bound in (item.start, item.stop, item.step):
        if bound is not None:
            _index(variable, bound)
    if item.step is not None and operator.index(item.step) == 0:
        raise BadInput(f"the step of a slice of `{variable.name}` is 0; use another")
    return item


def _index(variable: Variable, item: object) -> int:
    to_index: Callable[[Any], int] = operator.index
    try:
        if isinstance(item, bool):  # which NumPy takes for a mask
            raise TypeError
        return to_index(item)
    except TypeError:
        raise BadInput(
            f"`{variable.name}` cannot be indexed by {item!r}; use whole numbers, slices and ..., "
            "and NumPy for the rest: space[...][...][index]"
        ) from None


def _by_dimension(variable: Variable, index: object) -> list[Any]:
    """Return what is said of each dimension; what is not mentioned is wanted whole."""
    items = list(index) if isinstance(index, tuple) else [index]
    dots = [i for i, item in enumerate(items) if isinstance(item, EllipsisType)]
    missing = len(variable.shape) - len(items) + len(dots)
    if len(dots) > 1 or missing < 0:
        raise BadInput(
            f"{len(items)} things stand for the {len(variable.shape)} dimensions of "
            f"`{variable.name}`; use one for each, and at most one ..."
        )
    at = dots[0] if dots else len(items)
    return [*items[:at], *[slice(None)] * missing, *items[at + 1 :]]
