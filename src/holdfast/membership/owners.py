"""Who owns what under one view."""

from __future__ import annotations

from .._core import Ring
from .view import Member, View


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
