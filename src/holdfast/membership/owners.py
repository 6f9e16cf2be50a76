"""Who owns what under one view."""

from __future__ import annotations

import functools

from .._core import FileOwners, Ring
from .view import SPARE, Member, View


def lost_nodes(view: View) -> frozenset[str]:
    """Return the nodes whose owner was lost, and on which no other one lives."""
    lost = {member.node for member in view.lost() if member.role != SPARE}
    return frozenset(lost and lost.difference(member.node for member in view.owners_pool()))


class Owners:
    """The ring over the members of a view that may own objects. Immutable.

    Equal views give equal owners; a suspect still owns.
    """

    def __init__(self, view: View, virtual_nodes: int) -> None:
        pool = view.owners_pool()
        self.identity = view.identity
        self.members = {member.number: member for member in pool}
        self._on_node = {member.node: member for member in pool}
        self.ring = Ring(list(self._on_node), virtual_nodes)
        #: Nodes whose owner was lost, and no other has come.
        self.lost = lost_nodes(view)
        self._virtual_nodes = virtual_nodes

    @functools.cached_property
    def with_lost(self) -> Ring | None:
        """The ring as it would be if those had not been lost; None if none were."""
        if not self.lost:
            return None
        return Ring([*self._on_node, *self.lost], self._virtual_nodes)

    @functools.cached_property
    def files(self) -> FileOwners:
        """Whom to ask for files."""
        return FileOwners(self.ring, self.numbers, self.with_lost)

    @property
    def numbers(self) -> list[int]:
        """The member on each node of the ring, in the ring's order of nodes."""
        return [self._on_node[node].number for node in self.ring.nodes]

    @property
    def addresses(self) -> list[str]:
        """Where each of those lives."""
        return [self._on_node[node].address for node in self.ring.nodes]

    @property
    def racks(self) -> list[str]:
        """The rack of each of those."""
        return [self._on_node[node].rack for node in self.ring.nodes]

    def of(self, key: bytes, copies: int) -> list[Member]:
        """Return the owners of `key`, first to last; fewer than `copies` if fewer live."""
        return [self._on_node[node] for node in self.ring.owners(key, copies)]
