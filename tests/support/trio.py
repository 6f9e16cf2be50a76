"""A second key space for tests: groups of three nodes by rendezvous hash; spares stand in."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from holdfast._core import xxh3_64
from holdfast.membership.view import SPARE, Member

SLOTS = 32


class Trio:
    """The three nodes of a slot are those with the greatest hashes; the next ones follow them.

    Spares come last: they own something where too few others live, or may be reached.
    """

    prefix = b"@trio/"
    restore_after = 1.5
    may_leave_out = 1

    def slots(self, members: Sequence[Member]) -> list[list[Member]]:
        """Return all members for each slot."""

        def rank(slot: int, member: Member) -> tuple[bool, int]:
            return member.role != SPARE, xxh3_64(member.node.encode(), seed=slot)

        return [sorted(members, key=partial(rank, slot), reverse=True) for slot in range(SLOTS)]


TRIO = Trio()
