"""Listings that fit into a message, however long the keys are.

What does not fit is listed in portions, each of which is whole between two keys: so the other
member can tell what is missing from what is merely not mentioned yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import msgspec

#: Bytes of a listing; a message has 16 MiB at most, and agents do nothing else while they read it.
_LONGEST = 4 << 20
#: What an object takes in it beside its key.
_BESIDE = 32

T = TypeVar("T")


class PortionBounds(msgspec.Struct, frozen=True, array_like=True):
    """Keys behind the first and up to the second; without it, all that follow."""

    after: bytes = b""
    until: bytes = b""

    def __contains__(self, key: bytes) -> bool:
        return self.after < key and (not self.until or key <= self.until)


def portions(items: Iterable[T], key: Callable[[T], bytes]) -> list[tuple[PortionBounds, list[T]]]:
    """Divide what is to be listed by keys; together the bounds leave nothing out."""
    found: list[tuple[PortionBounds, list[T]]] = []
    portion: list[T] = []
    after, room = b"", _LONGEST
    for item in sorted(items, key=key):
        size = len(key(item)) + _BESIDE
        if size > room:
            until = key(portion[-1])
            found.append((PortionBounds(after, until), portion))
            portion, after, room = [], until, _LONGEST
        portion.append(item)
        room -= size
    return [*found, (PortionBounds(after), portion)]


def first(items: Iterable[T], key: Callable[[T], bytes]) -> list[T]:
    """Return as much as one message may list; the next comparison finds the rest."""
    return portions(items, key)[0][1]
