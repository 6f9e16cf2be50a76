"""`job.space(name)`: define, put and get n-dimensional arrays by name and version."""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, overload

import msgspec
import numpy as np
import numpy.typing as npt

from ..client.connection import Connection
from ..errors import BadInput, KeyExists, NotFound, Unavailable
from ..membership.rosters import roster_of
from ..objects.requests import ObjectRequests
from ..placement.windows import Roster
from .arrays import VersionArray
from .description import (
    Description,
    SpaceRecord,
    Variable,
    check_name,
    described,
    difference,
    space_key,
    variable_key,
    whole_numbers,
)
from .elements import Array, check_out, packed, raw, to_put, without_ghosts
from .layout import CellPart, piece_key
from .reader import Reader
from .selection import Edge, inside, ranges_of_box, show, widths_of, with_halo
from .streams import side_by_side

#: Of what describes a space and its variables, or as many as there are nodes.
_COPIES = 3
_LAST_VERSION = 2**64 - 1


class Cell(msgspec.Struct, frozen=True):
    """A cell of a variable: a box for `get`, and the nodes that should have it."""

    box: tuple[slice, ...]
    nodes: tuple[str, ...]


class Space:
    """Arrays with names and versions. All methods may be used from several threads at once."""

    def __init__(self, connection: Connection, name: str) -> None:
        self.name = check_name(name, "space")
        self._connection = connection
        self._requests = ObjectRequests(connection)
        self._reader = Reader(connection, self._requests)
        self._roster: Roster | None = None
        self._variables: dict[str, Variable] = {}

    def define(
        self,
        name: str,
        shape: int | Sequence[int],
        dtype: npt.DTypeLike,
        *,
        dims: Sequence[str] | None = None,
        attrs: Mapping[str, Any] | None = None,
        survive: int = 1,
        stripe: int | None = None,
        cell: Sequence[int] | None = None,
    ) -> Description:
        """Say what a variable is: once, whoever comes first; the same again is fine.

        All of its versions survive `survive` deaths of nodes. `dims` names the dimensions, `attrs`
        is what else there is to say, as JSON has it. `stripe` and `cell` override how it is laid
        out. If it is defined otherwise: `KeyExists`.
        """
        check_name(name, "variable")
        roster = self._roster or self._make()
        wanted = described(
            name,
            roster,
            shape,
            dtype,
            dims=dims,
            attrs=attrs,
            survive=survive,
            stripe=stripe,
            cell=cell,
        )
        key = variable_key(self.name, name)
        try:
            self._requests.put(key, msgspec.msgpack.encode(wanted), _COPIES, or_fewer=True)
        except KeyExists:
            kept = msgspec.msgpack.decode(self._requests.get(key), type=Description)
            if differs := difference(kept, wanted):
                raise KeyExists(
                    f"`{name}` of space `{self.name}` is defined already, with {differs}; define "
                    "it like that, or use another name"
                ) from None
            wanted = kept
        self._variables[name] = Variable(self.name, name, wanted, roster)
        return wanted

    def put(
        self,
        name: str,
        version: int,
        array: npt.ArrayLike,
        at: int | Sequence[int] | None = None,
        ghost: int | Sequence[int] = 0,
    ) -> None:
        """Store an array as a box of a version; when this returns, it survives as defined.

        `at` is where it begins in the variable, without its `ghost` cells: so many at each side
        belong to others, and are not stored. The same values again are fine; others where some
        have been put already raise `KeyExists`.
        """
        variable, number = self._variable(name), _version(version)
        array = to_put(variable, array)
        array = without_ghosts(variable, array, widths_of(variable, ghost, "ghost"))
        if at is None and array.shape != variable.shape:
            raise BadInput(
                f"an array of shape {array.shape} is not all of `{name}`, whose shape is "
                f"{variable.shape}; say with at= where it begins"
            )
        start = (0,) * array.ndim if at is None else whole_numbers(at, "at")
        if len(start) != array.ndim:
            raise BadInput(f"at is {at!r}; use {array.ndim} numbers, one for each dimension")
        box = [
            inside(variable, axis, first, first + n)
            for axis, (first, n) in enumerate(zip(start, array.shape, strict=True))
        ]
        store = partial(self._store, variable, number, raw(array))
        side_by_side(store, list(variable.layout.parts(box)))

    def get(
        self,
        name: str,
        version: int,
        box: object = None,
        out: Array | None = None,
        *,
        halo: int | Sequence[int] = 0,
        edge: Edge = "clip",
    ) -> Array:
        """Return a box of a version, all of it or an error; `box` is such as `numpy.s_[0:64, :]`.

        With `halo` it is so much larger at each side; at the border of the variable it is smaller
        (edge="clip"), or goes on at its other side (edge="wrap"). What has not been put is
        `NotYet`; what may be lost is `Unavailable`. `out` is filled and returned.
        """
        variable, number = self._variable(name), _version(version)
        ranges = ranges_of_box(variable, box)
        shape, regions = with_halo(variable, ranges, halo, edge)
        array = np.empty(shape, variable.dtype) if out is None else check_out(variable, out, shape)
        self._reader.fill(variable, number, array, regions)
        return array if out is None else out

    def cells(self, name: str) -> list[Cell]:
        """Return the cells of a variable, each with the nodes that should have it now."""
        variable, owners = self._variable(name), self._connection.routing.owners
        return [
            Cell(
                tuple(slice(*bounds) for bounds in part.cell),
                tuple(member.node for member in owners.of(part.head, variable.copies)),
            )
            for part in variable.layout.parts([range(n) for n in variable.shape])
        ]

    @overload
    def __getitem__(self, key: str) -> Description: ...
    @overload
    def __getitem__(self, key: tuple[str, int]) -> VersionArray: ...

    def __getitem__(self, key: str | tuple[str, int]) -> Description | VersionArray:
        if isinstance(key, str):
            return self._variable(key).description
        if not isinstance(key, tuple) or len(key) != 2:
            raise BadInput(f"space[{key!r}] is nothing; use space[name] or space[name, version]")
        name, version = key
        return VersionArray(self._reader, self._variable(name), _version(version))

    def __repr__(self) -> str:
        return f"<Space {self.name!r}>"

    def _store(self, variable: Variable, version: int, elements: Array, part: CellPart) -> None:
        data = packed(elements[part.place])
        try:
            self._requests.put(piece_key(part, version), data, variable.copies)
        except KeyExists as error:
            error.args = (
                f"version {version} of `{variable.name}` has other values already in the box "
                f"{show(part.box)}, or in part of it; put new values as a new version",
            )
            raise

    def _variable(self, name: str) -> Variable:
        variable = self._variables.get(check_name(name, "variable"))
        if variable is None:
            roster = self._roster or self._find()
            text = self._record(
                variable_key(self.name, name),
                f"space `{self.name}` has no variable `{name}`; define it first",
            )
            description = msgspec.msgpack.decode(text, type=Description)
            variable = Variable(self.name, name, description, roster)
            self._variables[name] = variable
        return variable

    def _make(self) -> Roster:
        """Make the space, or adopt it as somebody has made it."""
        self._connection.refresh()
        roster = roster_of(self._connection.routing.live)
        record = msgspec.msgpack.encode(SpaceRecord(roster))
        with contextlib.suppress(KeyExists):
            self._requests.put(space_key(self.name), record, _COPIES, or_fewer=True)
            return self._know(roster)
        return self._find()

    def _find(self) -> Roster:
        text = self._record(
            space_key(self.name),
            f"there is no space `{self.name}` yet; define a variable of it first",
        )
        return self._know(msgspec.msgpack.decode(text, type=SpaceRecord).roster)

    def _record(self, key: bytes, missing: str) -> bytes:
        try:
            return self._requests.get(key)
        except NotFound:
            raise NotFound(missing) from None
        except Unavailable as error:
            error.args = (f"{error}; if it was never there: {missing}",)
            raise

    def _know(self, roster: Roster) -> Roster:
        self._connection.know(roster)
        self._roster = roster
        return roster


def _version(version: int) -> int:
    try:
        number = operator.index(version)
    except TypeError:
        number = -1
    if not 0 <= number <= _LAST_VERSION:
        raise BadInput(f"the version is {version!r}; use a whole number from 0 to {_LAST_VERSION}")
    return number
