"""A second key space for tests: groups of three nodes by rendezvous hash."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast._core import xxh3_64
from holdfast.membership.view import SPARE, Member

SLOTS = 32


class Trio:
    """The three nodes of a slot are those with the greatest hashes; the next ones follow them."""

    prefix = b"@trio/"
    restore_after = 1.5
    may_leave_out = 1

    def slots(self, members: Sequence[Member]) -> list[list[Member]]:
        """Return all members but spares for each slot."""
        owning = [member for member in members if member.role != SPARE]

        def ranked(slot: int) -> list[Member]:
            return sorted(owning, key=lambda m: xxh3_64(m.node.encode(), seed=slot), reverse=True)

        return [ranked(slot) for slot in range(SLOTS)]


TRIO = Trio()
