"""A view: the members that an agent or a client knows of."""

from __future__ import annotations

import msgspec


class Member(msgspec.Struct, frozen=True):
    """One life of one node's agent; a restart is a new member."""

    node: str
    number: int  # drawn at random at the start
    address: str  # for other nodes
    socket: str  # for processes on its host
    pid: int


class View(msgspec.Struct, frozen=True):
    """The members of a session, and those that were lost and replaced."""

    members: tuple[Member, ...] = ()
    lost: tuple[Member, ...] = ()

    def node(self, name: str) -> Member | None:
        """Return the member that runs on node `name`."""
        return next((member for member in self.members if member.node == name), None)

    def replace(self, member: Member) -> View:
        """Return the view after `member` took the place of its node's earlier one."""
        old = tuple(m for m in self.members if m.node == member.node and m.number != member.number)
        rest = tuple(m for m in self.members if m.node != member.node)
        members = tuple(sorted((*rest, member), key=lambda m: m.node))
        return View(members, self.lost + old)
