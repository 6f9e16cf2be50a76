"""What a space and its variables are, as they are kept and as people say it."""

from __future__ import annotations

import ast
import json
import math
import operator
import re
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
from numpy.lib.format import descr_to_dtype, dtype_to_descr

from ..errors import BadInput, NotEnoughNodes
from ..placement.windows import NAMES, Roster
from .layout import CellLayout, cell_shape, units_of_stripe

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_MOST_DIMENSIONS = 8
_MOST_DEATHS = 15
#: One request for boxes brings no more.
_LARGEST_CELL = 256 << 20
#: The turns of all cells are computed at once, and kept.
_MOST_CELLS = 1 << 20


class SpaceRecord(msgspec.Struct, frozen=True):
    """A space as it is kept; who makes it first decides."""

    roster: Roster


class Description(msgspec.Struct, frozen=True, kw_only=True):
    """A variable as it was defined: what all of its versions have in common."""

    shape: tuple[int, ...]
    dtype: str  # such as "<f8"; of a structure the text of the list that makes it
    dims: tuple[str, ...] = ()  # names of the dimensions, or nothing
    attrs: dict[str, Any] = {}
    survive: int  # deaths of nodes
    stripe: int  # cells that share their copies' nodes
    cell: tuple[int, ...]


class Variable:
    """A description and what follows from it. Immutable."""

    def __init__(self, space: str, name: str, description: Description, roster: Roster) -> None:
        self.name = name
        self.description = description
        self.shape = description.shape
        self.dtype: np.dtype[Any] = type_of(description.dtype)
        self.roster = roster
        self.copies = description.survive + 1
        self.layout = CellLayout(
            f"{space}:{name}",
            description.shape,
            description.cell,
            survive=description.survive,
            stripe=description.stripe,
            roster=roster.id,
            nodes=len(roster.nodes),
        )

    def dimension(self, axis: int) -> str:
        """Return what people call a dimension."""
        dims = self.description.dims
        return dims[axis] if dims else f"dimension {axis}"


def space_key(space: str) -> bytes:
    """Return under which key a space is kept."""
    return NAMES + space.encode()


def variable_key(space: str, name: str) -> bytes:
    """Return under which key a variable is kept."""
    return NAMES + f"{space}/{name}".encode()


def check_name(name: object, of: str) -> str:
    """Return the name of a space or a variable if it is one."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise BadInput(
            f"{name!r} is no name for a {of}; use 1 to 64 letters, digits, dots, dashes and "
            "underscores"
        )
    return name


def described(
    name: str,
    roster: Roster,
    shape: int | Sequence[int],
    dtype: npt.DTypeLike,
    *,
    dims: Sequence[str] | None,
    attrs: Mapping[str, Any] | None,
    survive: int,
    stripe: int | None,
    cell: Sequence[int] | None,
) -> Description:
    """Check what somebody says of a variable, and choose the rest."""
    sides = whole_numbers(shape, f"the shape of `{name}`")
    if not 1 <= len(sides) <= _MOST_DIMENSIONS or min(sides) < 1:
        raise BadInput(
            f"the shape of `{name}` is {sides}; use 1 to {_MOST_DIMENSIONS} dimensions with at "
            "least one element each"
        )
    kind, text = _type(name, dtype)
    deaths = _number(survive, "survive", 0, _MOST_DEATHS)
    nodes = len(roster.nodes)
    if nodes <= deaths:
        raise NotEnoughNodes(
            f"`{name}` with survive={deaths} needs {deaths + 1} nodes, but its space was made on "
            f"{nodes} ({', '.join(roster.nodes)}); use a smaller `survive`, or a new space when "
            "there are more nodes"
        )
    if stripe is None:
        units = units_of_stripe(deaths, nodes)
    else:
        units = _number(stripe, "stripe", 1, nodes - deaths)
    if cell is None:
        per_cell = cell_shape(sides, kind.itemsize, units, nodes)
    else:
        per_cell = _cell(name, whole_numbers(cell, f"the cell of `{name}`"), sides)
    if math.prod(per_cell) * kind.itemsize > _LARGEST_CELL:
        raise BadInput(
            f"a cell of `{name}` would have {math.prod(per_cell) * kind.itemsize} bytes, but at "
            f"most {_LARGEST_CELL}; use a smaller one"
        )
    cells = math.prod(-(-n // side) for n, side in zip(sides, per_cell, strict=True))
    if cells > _MOST_CELLS:
        raise BadInput(
            f"`{name}` would have {cells} cells, but at most {_MOST_CELLS}; use a larger `cell`"
        )
    return Description(
        shape=sides,
        dtype=text,
        dims=_dims(name, dims, len(sides)),
        attrs=_attrs(name, attrs),
        survive=deaths,
        stripe=units,
        cell=per_cell,
    )


def difference(kept: Description, wanted: Description) -> str:
    """Say in what two descriptions differ; nothing: in nothing."""
    return " and ".join(
        f"{field} {getattr(kept, field)!r}, not {getattr(wanted, field)!r}"
        for field in Description.__struct_fields__
        if getattr(kept, field) != getattr(wanted, field)
    )


def whole_numbers(value: object, what: str) -> tuple[int, ...]:
    """Return one whole number or several as a tuple."""
    try:
        if isinstance(value, Sequence | np.ndarray) and not isinstance(value, str | bytes):
            return tuple(map(operator.index, value))
        return (operator.index(value),)  # type: ignore[arg-type]
    except TypeError:
        raise BadInput(f"{what} is {value!r}; use whole numbers") from None


def _number(value: int, what: str, least: int, most: int) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if not least <= number <= most:
        raise BadInput(f"{what} is {value!r}; use a whole number from {least} to {most}")
    return number


def _cell(name: str, cell: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
    if len(cell) != len(shape) or min(cell) < 1:
        raise BadInput(
            f"the cell of `{name}` is {cell}; use {len(shape)} numbers that are at least 1, one "
            "for each dimension"
        )
    return tuple(map(min, cell, shape))


def _dims(name: str, dims: Sequence[str] | None, count: int) -> tuple[str, ...]:
    if dims is None:
        return ()
    names = tuple(dims) if isinstance(dims, Sequence) else (dims,)
    valid = all(isinstance(one, str) and one.isprintable() and one for one in names)
    if not valid or len({*names}) != len(names):
        raise BadInput(f"the dims of `{name}` are {dims!r}; use a different name for each")
    if len(names) != count:
        raise BadInput(f"`{name}` has {count} dimensions, but dims names {len(names)}: {dims!r}")
    return names


def _attrs(name: str, attrs: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return attributes as JSON has them, sorted, so that equal ones are equal bytes."""
    try:
        kept = json.loads(json.dumps(dict(attrs or {}), sort_keys=True))
        msgspec.msgpack.encode(kept)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise BadInput(
            f"the attrs of `{name}` cannot be kept ({error}); use what JSON has: texts, numbers, "
            "lists, and dictionaries with texts as keys"
        ) from None
    assert isinstance(kept, dict)
    return kept


def _type(name: str, dtype: npt.DTypeLike) -> tuple[np.dtype[Any], str]:
    """Return a type whose elements have a fixed size, and how it is written."""
    try:
        if dtype is None:  # which NumPy takes for doubles
            raise TypeError("None is no data type")
        kind = np.dtype(dtype)
    except (TypeError, ValueError, SyntaxError) as error:
        raise BadInput(f"the dtype of `{name}` cannot be read: {error}") from None
    if kind.hasobject or kind.itemsize == 0 or kind.subdtype is not None:
        why = "holds Python objects" if kind.hasobject else "has no fixed size of its own"
        raise BadInput(
            f"`{name}` cannot be of dtype {dtype!r}, which {why}; use numbers, times, texts "
            "such as 'U20', or a structure of them"
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a type of somebody else's is not written exactly
        try:
            descr = dtype_to_descr(kind)
            text = descr if isinstance(descr, str) else repr(descr)
            same = type_of(text) == kind
        except (TypeError, ValueError, SyntaxError):
            same = False
    if not same:
        raise BadInput(
            f"`{name}` cannot be of dtype {dtype!r}: NumPy cannot write it down for others; view "
            "the data as a plain type of the same size"
        )
    return kind, text


def type_of(text: str) -> np.dtype[Any]:
    """Read the type in a description."""
    descr: Any = ast.literal_eval(text) if text.startswith("[") else text
    return descr_to_dtype(descr)
