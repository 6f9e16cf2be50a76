"""Which deaths may have cost objects: a node that dies before the copies of another are back.

The members that knew of an object may have died with it, so nobody can tell which are lost. What
every survivor can tell is that deaths overlapped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..membership.view import Member

#: Ticks in a row that find nothing to restore, until what was lost counts as restored. What a
#: member lacks it learns from others, who ask as soon as they see the new view.
_CALM = 2


class Losses:
    """Groups the nodes that died before copies were restored, as one member sees it."""

    def __init__(self, me: int) -> None:
        self._me = me
        self._owners: Mapping[int, Member] = {}
        #: Others that owned something since copies were last restored, as a spare does that stands
        #: in: they may still hold what nobody else does.
        self._former: dict[int, Member] = {}
        self._fresh = True  # nothing was restored since we started
        self._calm = 0
        self._unrestored: dict[int, str] = {}  # nodes by the numbers of members
        self._groups: list[dict[int, str]] = []

    def viewed(
        self, owners: Mapping[int, Member], live: Sequence[Member], lost: Sequence[Member]
    ) -> None:
        """Take note of who owns something, who lives and who was lost.

        Who is back has its objects still.
        """
        now = {member.number for member in live}
        holding = {**self._former, **self._owners}
        gone = [member for number, member in holding.items() if number not in now]
        if self._fresh and self._me in owners:  # what our node held before us is gone as well
            gone += (member for member in lost if member.node == owners[self._me].node)
        self._unrestored |= {member.number: member.node for member in gone}
        for group in (self._unrestored, *self._groups):
            for number in group.keys() & now:
                del group[number]
        self._former = {n: one for n, one in holding.items() if n in now and n not in owners}
        self._owners = owners
        self._calm = 0

    def tick(self, restored: bool) -> None:
        """Take note of whether all is restored, as far as is known."""
        self._calm = self._calm + 1 if restored and len(self._owners) > 1 else 0
        if self._calm >= _CALM:
            self._fresh = False
            self._former = {}
            self._groups.append(self._unrestored)
            self._groups = [group for group in self._groups if _is_one(group)]
            self._unrestored = {}

    def died_together(self) -> tuple[tuple[str, ...], ...]:
        """Return the nodes of each group."""
        groups = filter(_is_one, (*self._groups, self._unrestored))
        return tuple(tuple(sorted(set(group.values()))) for group in groups)


def _is_one(group: dict[int, str]) -> bool:
    """Whether several nodes are in it: copies of an object are on different ones."""
    return len(set(group.values())) > 1
