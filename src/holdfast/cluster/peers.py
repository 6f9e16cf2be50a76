"""The agents of a session as a client sees them: who owns a key, and how to reach whom."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from .._core import Ring
from ..config import Config
from ..errors import BadInput, HoldfastError, NoSession, NotEnoughNodes, TryAgain
from ..membership import view as views
from ..membership.view import Member, View
from .avoid import Avoided
from .contacts import Contacts
from .node import own_name

#: How many owners are looked up at first; a key is rarely sought further.
_FIRST = 4
#: Most objects have at least this many copies.
_LIKELY = 2
#: A view is asked for at most this often, however many requests fail.
_REFRESH_EVERY = 0.2


class _Routes:
    """A view and what follows from it; replaced as a whole, so threads see one or the other."""

    def __init__(self, view: View, virtual_nodes: int) -> None:
        self.view = view
        self.members = {member.node: member for member in view.live()}
        self.by_address = {
            address: member for member in view.live() for address in (member.address, member.socket)
        }
        self.ring = Ring(list(self.members), virtual_nodes)

    def owners(self, key: bytes, count: int) -> list[Member]:
        return [self.members[node] for node in self.ring.owners(key, count)]


class Peers:
    """Routing for one client: a view, its ring, and the nodes to avoid. Safe for threads."""

    def __init__(self, directory: Path, config: Config, node: str = "") -> None:
        wanted = node or config.node
        contacts = Contacts(directory, config.deadline)
        self._virtual_nodes = contacts.session.virtual_nodes
        self.deadline = config.deadline
        self.client = contacts.client
        self._avoided = Avoided(config.avoid)
        self._refreshed = time.monotonic()
        view = contacts.view(wanted or own_name())
        names = [member.node for member in view.live()]
        if wanted and wanted not in names:
            raise BadInput(
                f"there is no node {wanted!r} in this session; it has {', '.join(names)}"
            )
        if not names:
            raise NoSession(f"session {directory.name!r} has no agents; start it again")
        here = [agent.member.node for agent in contacts.agents]
        own = [name for name in (own_name(), *here, *names) if name in names]
        self.node = wanted or own[0]
        self._is_here = self.node in here
        self._routes = _Routes(view, self._virtual_nodes)

    @property
    def view(self) -> View:
        """The members as last heard."""
        return self._routes.view

    def refresh(self, now_or_never: bool = False) -> bool:
        """Ask an agent for its view, the local one first; tells whether it was news.

        Done at most so often, unless a decision hangs on it (`now_or_never`).
        """
        now = time.monotonic()
        if now - self._refreshed < _REFRESH_EVERY and not now_or_never:
            return False
        self._refreshed = now
        known = msgspec.msgpack.encode(self.view.identity)
        local_first = sorted(self.view.live(), key=lambda member: member.node != self.node)
        for member in local_first:
            if self._avoids(member):
                continue
            try:
                answer = self.client.call(
                    self.address(member), "agent", "view", known, deadline=self.deadline
                )
            except TryAgain:
                self._avoided.add(member.node, time.monotonic())
                continue
            view = View(self.view.entries())
            if not answer or not view.merge(views.decode(answer)) or not view.live():
                return False
            for newcomer in set(view.live()) - set(self.view.live()):
                self._avoided.remove(newcomer.node)
            self._routes = _Routes(view, self._virtual_nodes)
            return True
        return False

    def address(self, member: Member) -> str:
        """Return how to reach a member: the Unix socket of our own node, TCP for the others."""
        return member.socket if self._is_here and member.node == self.node else member.address

    def owners(self, key: bytes, count: int) -> list[Member]:
        """Return the first `count` nodes on the ring for `key`."""
        return self._routes.owners(key, count)

    def candidates(self, key: bytes, local_first: bool = False) -> Iterator[Member]:
        """Yield the owners in order, then every member; those to avoid come last.

        Our own node comes first where it is likely to have a copy, or where that is asked for.
        """
        routes = self._routes
        first = routes.ring.owners(key, _FIRST)
        if self.node in first[:_LIKELY] or (local_first and self.node in routes.members):
            first = [self.node, *(node for node in first if node != self.node)]
        if self._avoided:
            nodes = dict.fromkeys([*first, *routes.ring.owners(key, len(routes.members))])
            yield from sorted((routes.members[node] for node in nodes), key=self._avoids)
            return
        for node in first:
            yield routes.members[node]
        if len(routes.members) > len(first):
            everybody = routes.owners(key, len(routes.members))
            yield from (member for member in everybody if member.node not in first)

    def choose(self, key: bytes, copies: int, failed: Mapping[str, HoldfastError]) -> list[Member]:
        """Return the owners for a put: not those who `failed` it, others to avoid only at need."""
        routes = self._routes
        left = [m for m in routes.owners(key, len(routes.members)) if m.node not in failed]
        if len(left) < copies:
            cause = "".join(f"; {node}: {error}" for node, error in failed.items())
            raise NotEnoughNodes(
                f"{copies} copies need as many nodes, and {len(left)} of "
                f"{len(routes.members)} are there{cause}"
            )
        return sorted(left, key=self._avoids)[:copies] if self._avoided else left[:copies]

    def node_at(self, error: HoldfastError) -> str:
        """Return the node where an error happened, as far as it is known."""
        at = getattr(error, "at", "")
        member = self._routes.by_address.get(at)
        return member.node if member is not None else at

    def failed(self, error: HoldfastError) -> Member | None:
        """Note who failed a request, by where the error happened; gives the member if known."""
        member = self._routes.by_address.get(getattr(error, "at", ""))
        if member is not None:
            self._avoided.add(member.node, time.monotonic())
        return member

    def _avoids(self, member: Member) -> bool:
        return (member.node, time.monotonic()) in self._avoided
