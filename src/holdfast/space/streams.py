"""Doing several requests side by side: each waits for the network, or copies without the GIL."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")
_STREAMS = 4


def side_by_side(act: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """Return what comes of each; the first error lets those go that have not begun."""
    if len(items) == 1:
        return [act(items[0])]
    # One for each call: the child after a fork has none of the threads.
    with ThreadPoolExecutor(min(_STREAMS, max(len(items), 1))) as pool:
        return list(pool.map(act, items))
