"""Who must own what: computed from who runs, with everything spelled out."""

from __future__ import annotations

from collections.abc import Sequence

from ..membership.key_spaces import KeySpace, fitting
from ..membership.view import SPARE, Member
from ..placement.ring import Ring
from ..placement.slot_table import SlotTable


class Expected:
    """The owners of every key, by node, if these members run and all know it."""

    def __init__(
        self, members: Sequence[Member], virtual_nodes: int, key_spaces: Sequence[KeySpace]
    ) -> None:
        by_node = sorted(members, key=lambda member: member.node)
        self._count = len(by_node)
        self._ring = Ring([m.node for m in by_node if m.role != SPARE], virtual_nodes)
        self._key_spaces = key_spaces
        self._tables = {
            space.prefix: SlotTable(
                space.prefix, [[member.node for member in slot] for slot in space.slots(by_node)]
            )
            for space in key_spaces
        }

    def owners(self, key: bytes, count: int) -> list[str]:
        """Return the owners of a key, first to last."""
        space = fitting(self._key_spaces, key)
        return (self._tables[space.prefix] if space else self._ring).owners(key, count)

    def most(self, key: bytes) -> int:
        """Count the nodes that may own a key."""
        return len(self.owners(key, self._count))
