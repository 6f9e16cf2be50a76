"""Who owns what under one view."""

from __future__ import annotations

from collections.abc import Sequence

from .._core import Placement, Ring, SlotTable, WindowTable
from ..placement.windows import Roster, Standing, in_windows
from .key_spaces import KeySpace, fitting
from .view import SPARE, Member, View


def lost_nodes(view: View) -> frozenset[str]:
    """Return the nodes whose owner was lost, and on which no other one lives."""
    lost = {member.node for member in view.lost() if member.role != SPARE}
    return frozenset(lost and lost.difference(member.node for member in view.owners_pool()))


class Owners:
    """The placement over the members of a view that may own objects. Immutable.

    Keys that lie in none of the `key_spaces`, nor in a window, lie on the ring. Equal views give
    equal owners; a suspect still owns. A key of a roster that is none of the `rosters` has no
    owners: so those of a key are the same for all that have one view, or none. Nothing in it
    depends on whose view it is, so that members of one view can share it.
    """

    def __init__(
        self,
        view: View,
        virtual_nodes: int,
        key_spaces: Sequence[KeySpace] = (),
        rosters: Sequence[Roster] = (),
    ) -> None:
        pool = view.owners_pool()
        self.identity = view.identity
        self.members = {member.number: member for member in pool}
        on_node = {member.node: member for member in pool}
        #: Nodes whose owner was lost, and no other has come.
        self.lost = lost_nodes(view)
        ring = Ring(list(on_node), virtual_nodes)
        standing = [on_node[node] for node in ring.nodes]
        self._key_spaces = key_spaces
        tables = []
        for space in key_spaces:
            slots = space.slots(view.live())
            self.members.update((member.number, member) for slot in slots for member in slot)
            numbers = [[member.number for member in slot] for slot in slots]
            tables.append(SlotTable(space.prefix, numbers, space.may_leave_out))
        live = view.live() if rosters else []  # spares stand in for others
        self.members.update((member.number, member) for member in live)
        windows = WindowTable(
            [(roster.id, roster.nodes, roster.role) for roster in rosters],
            [Standing(one.number, one.node, one.host, one.rack, one.role) for one in live],
        )
        self.placement = Placement(
            ring,
            [member.number for member in standing],
            [member.address for member in standing],
            identity=self.identity,
            racks=[member.rack for member in standing],
            with_lost=Ring([*on_node, *self.lost], virtual_nodes) if self.lost else None,
            tables=tables,
            windows=windows,
        )
        self.ring = self.placement.ring

    def of(self, key: bytes, copies: int) -> list[Member]:
        """Return the owners of `key`, first to last; fewer than `copies` if fewer live."""
        return [self.members[number] for number in self.placement.owners(key, copies)]

    def space(self, key: bytes) -> KeySpace | None:
        """Return the key space in which `key` lies; None: it lies on the ring or in a window."""
        return None if in_windows(key) else fitting(self._key_spaces, key)
