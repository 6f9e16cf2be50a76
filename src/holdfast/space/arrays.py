"""`space[name, version]`: a version of a variable as if it were an array."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import BadInput
from .description import Variable
from .elements import Array
from .reader import Reader
from .selection import Region, ranges_of_box, selection


class VersionArray:
    """One version of a variable; what is asked for is read each time, and nothing is kept."""

    def __init__(self, reader: Reader, variable: Variable, version: int) -> None:
        self._reader = reader
        self._variable = variable
        self.version = version

    @property
    def shape(self) -> tuple[int, ...]:
        """That of the variable."""
        return self._variable.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """That of the variable."""
        return self._variable.dtype

    @property
    def ndim(self) -> int:
        """How many dimensions it has."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """How many elements it has."""
        return math.prod(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, index: object) -> Any:
        """Read what NumPy would give for whole numbers, slices with any step, and `...`."""
        wanted = selection(self._variable, index)
        array = np.empty([len(one) for one in wanted.ranges], self.dtype)
        origin = (0,) * self.ndim
        self._reader.fill(
            self._variable, self.version, array[wanted.flips], [Region(wanted.ranges, origin)]
        )
        return array[wanted.keeps]

    def view(self, box: object = None) -> Array:
        """Return a box read-only: without a copy where a piece on this node has all of it.

        Otherwise it is copied as by `get`. What is mapped is not verified, and stays as it is
        whatever becomes of its agent.
        """
        ranges = ranges_of_box(self._variable, box)
        array = self._reader.view(self._variable, self.version, ranges)
        if array is None:
            array = self[tuple(slice(one.start, one.stop) for one in ranges)]
        array.flags.writeable = False
        return array

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise BadInput(
                f"version {self.version} of `{self._variable.name}` becomes an array by a copy "
                "only; view() may need none"
            )
        array: Array = self[...]
        return array if dtype is None else array.astype(dtype, copy=False)

    def __repr__(self) -> str:
        name = self._variable.name
        return f"<VersionArray {name!r} {self.version}, shape {self.shape}, {self.dtype}>"
