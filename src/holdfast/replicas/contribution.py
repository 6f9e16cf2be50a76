"""What one rank submits of a data set, or what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..errors import BadInput
from .blocks import Bytes, as_blocks, as_bytes, as_name, as_whole
from .permutation import Ints

#: The shortest of no blocks.
_ENDLESS = 2**62


@dataclass(kw_only=True)
class Contribution:
    """Blocks for data set `name`; `call` is what all ranks must have in common.

    A `problem` is kept, not raised: the other ranks must hear of it.
    """

    name: str = ""
    call: str = ""
    consecutive: bool = True  # after those of the ranks before; else from `start`
    start: int = -1
    blocks: Bytes = field(default_factory=lambda: np.empty(0, np.uint8))
    lengths: Ints = field(default_factory=lambda: np.empty(0, np.int64))  # of one_by_one
    count: int = 0
    shortest: int = _ENDLESS
    longest: int = 0
    problem: str | None = None
    cause: Exception | None = None

    @property
    def words(self) -> tuple[int, ...]:
        """What the other ranks must know of it."""
        return self.count, self.start, self.blocks.nbytes, self.shortest, self.longest

    @classmethod
    def wrong(cls, problem: str) -> Contribution:
        """Return what nobody can submit."""
        return cls(problem=problem)

    @classmethod
    def whole(cls, data: Any, first: int | None, block_bytes: Any, name: Any) -> Contribution:
        """Take blocks of equal size that lie side by side."""
        call = f"submit({name=}, {block_bytes=}, {_where(first)})"
        given = cls(name=name, call=call, consecutive=first is None)
        try:
            as_name(name)
            given.blocks = as_bytes(data)
            size = given.shortest = given.longest = as_whole(block_bytes, "block_bytes", 1)
            given.start = _start(first)
            given.count, rest = divmod(given.blocks.nbytes, size)
            if rest:
                raise BadInput(
                    f"the {given.blocks.nbytes} bytes of data are not a multiple of the "
                    f"block size, {size}; pad them, or choose a block_bytes that divides "
                    "them"
                )
        except BadInput as error:
            given.problem = str(error)
        except MemoryError:
            given.problem = "not enough memory for a contiguous copy of its data"
        return given

    @classmethod
    def one_by_one(cls, blocks: Iterable[Any], first: int | None, name: Any) -> Contribution:
        """Take blocks of any lengths."""
        call = f"submit_many({name=}, {_where(first)})"
        given = cls(name=name, call=call, consecutive=first is None)
        try:
            as_name(name)
            given.start = _start(first)
            given.blocks, given.lengths = as_blocks(blocks)
            given.count = len(given.lengths)
            if given.count:
                given.shortest, given.longest = int(given.lengths.min()), int(given.lengths.max())
        except BadInput as error:
            given.problem = str(error)
        except Exception as error:  # of the user's iterator
            given.problem, given.cause = f"its blocks could not be produced: {error}", error
        return given


def _where(first: int | None) -> str:
    return f"first {'' if first is None else 'not '}None"


def _start(first: int | None) -> int:
    return -1 if first is None else as_whole(first, "first", 0)
