"""Who owns what under one view."""

from __future__ import annotations

from .._core import Placement, Ring
from .view import SPARE, Member, View


def lost_nodes(view: View) -> frozenset[str]:
    """Return the nodes whose owner was lost, and on which no other one lives."""
    lost = {member.node for member in view.lost() if member.role != SPARE}
    return frozenset(lost and lost.difference(member.node for member in view.owners_pool()))


class Owners:
    """The placement over the members of a view that may own objects. Immutable.

    Equal views give equal owners; a suspect still owns. Nothing in it depends on whose view it is,
    so that members of one view can share it.
    """

    def __init__(self, view: View, virtual_nodes: int) -> None:
        pool = view.owners_pool()
        self.identity = view.identity
        self.members = {member.number: member for member in pool}
        self._on_node = {member.node: member for member in pool}
        #: Nodes whose owner was lost, and no other has come.
        self.lost = lost_nodes(view)
        ring = Ring(list(self._on_node), virtual_nodes)
        standing = [self._on_node[node] for node in ring.nodes]
        self.placement = Placement(
            ring,
            [member.number for member in standing],
            [member.address for member in standing],
            self.identity,
            [member.rack for member in standing],
            Ring([*self._on_node, *self.lost], virtual_nodes) if self.lost else None,
        )
        self.ring = self.placement.ring

    def of(self, key: bytes, copies: int) -> list[Member]:
        """Return the owners of `key`, first to last; fewer than `copies` if fewer live."""
        return [self._on_node[node] for node in self.ring.owners(key, copies)]
