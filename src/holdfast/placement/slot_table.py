"""A key space whose owners stand in a table, spelled out; `holdfast._core.SlotTable` is the same.

A *key space* is all keys that begin alike. Its table has a number of slots, each with the nodes
that own its keys, in order; the slot of a key is its hash modulo their number. What follows the
first zero byte of a key does not count: versions of one thing live together.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from .._core import xxh3_64


class SlotTable:
    """An immutable table."""

    def __init__(self, prefix: bytes, slots: Sequence[Sequence[str]]) -> None:
        self.prefix = prefix
        self._slots = slots

    def owners(self, key: bytes, count: int = 1, without: Collection[str] = ()) -> list[str]:
        """Return the first `count` nodes for `key`, as if those `without` were not in its slot."""
        if not self._slots:
            return []
        slot = self._slots[xxh3_64(key.split(b"\0", 1)[0]) % len(self._slots)]
        return [node for node in slot if node not in without][:count]
