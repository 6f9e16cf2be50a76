"""Where a client turns with a key: pure bookkeeping, the caller brings view and clock."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

from ..errors import HoldfastError
from ..membership.key_spaces import KeySpace
from ..membership.owners import Owners, lost_nodes
from ..membership.view import Entry, Member, State, View
from ..placement.windows import Roster

#: How many owners are looked up at first; a key is rarely sought further.
_FIRST = 4
#: Most objects have at least this many copies.
_LIKELY = 2
#: How many of the lost are asked for a view if nobody else answers; each may cost a deadline.
_LOST_ASKED = 2


class Avoided:
    """Members, by number, that failed a request lately.

    Avoiding is not believing dead: one caller avoids one member, and for a while. Who is
    started anew on the same node is another member and does not answer for the one before.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._until: dict[int, float] = {}

    def add(self, member: int, now: float) -> None:
        """Avoid `member` from `now` on."""
        self._until[member] = now + self._seconds

    def remove(self, member: int) -> None:
        """Trust `member` again: it has spoken for itself."""
        self._until.pop(member, None)

    def __contains__(self, item: tuple[int, float]) -> bool:
        member, now = item
        until = self._until.get(member)
        if until is None:
            return False
        if now >= until:
            self._until.pop(member, None)  # another thread may have been first
            return False
        return True

    def __bool__(self) -> bool:
        return bool(self._until)


class _Routes:
    """A view and what follows from it; replaced as a whole, so threads see one or the other."""

    def __init__(self, owners: Owners, view: View) -> None:
        self.owners = owners
        self.live = view.live()
        self.lost = view.lost()
        self.by_address = {
            address: member for member in self.live for address in (member.address, member.socket)
        }


class Routing:
    """A view, the owners that follow from it, and the members to avoid, for one client on `node`.

    Reading is safe from several threads; `merge` and `know` are for one at a time.
    """

    def __init__(
        self,
        view: View,
        virtual_nodes: int,
        node: str,
        here: Container[str],
        avoid: float,
        key_spaces: Sequence[KeySpace] = (),
    ) -> None:
        self.node = node
        self._is_here = node in here  # its socket is: the agent may be on another host
        self._virtual_nodes = virtual_nodes
        self._key_spaces = key_spaces
        #: Those whose windows we know.
        self.rosters: tuple[Roster, ...] = ()
        self._view = view
        self._avoided = Avoided(avoid)
        self._turn = 0  # which of the lost are asked next
        self._routes = self._follow()

    @property
    def live(self) -> list[Member]:
        """The members that live, in the order of their nodes."""
        return self._routes.live

    @property
    def lost(self) -> list[Member]:
        """The members that were lost."""
        return self._routes.lost

    @property
    def owners(self) -> Owners:
        """Who owns what."""
        return self._routes.owners

    def entries(self) -> list[Entry]:
        """Return the view as it travels."""
        return self._view.entries()

    def merge(self, entries: list[Entry]) -> bool:
        """Merge what a member knows; tells whether it changed who lives."""
        news = self._view.merge(entries)
        for entry in news:
            if entry.state is State.ALIVE:  # it has spoken for itself since it failed us
                self._avoided.remove(entry.member.number)
        if self._view.identity == self._routes.owners.identity:
            if news:  # perhaps of somebody who came and died without our having heard of it
                if lost_nodes(self._view) != self._routes.owners.lost:
                    self._routes = self._follow()
                self._routes.lost = self._view.lost()
            return False
        self._routes = self._follow()
        return True

    def know(self, roster: Roster) -> None:
        """See also who owns what lies in windows of `roster`."""
        if roster not in self.rosters:
            self.rosters += (roster,)
            self._routes = self._follow()

    def _follow(self) -> _Routes:
        owners = Owners(self._view, self._virtual_nodes, self._key_spaces, self.rosters)
        return _Routes(owners, self._view)

    def agrees(self, entries: list[Entry]) -> bool:
        """Whether a member whose whole view this is, and which we merged, knows all that we know.

        If not it must be told. Otherwise a client that learned of deaths from an agent behind a
        cut, which died there, would believe in them for ever: those who live have nothing to take
        back.
        """
        return View(entries).identity == self._view.identity

    def informants(self, now: float) -> Iterator[Member]:
        """Yield whom to ask for a view, one after the other until one answers.

        In the end some of the lost: who told us that they are dead may have been behind a cut.
        """
        live = [member for member in self.live if not self.avoids(member, now)]
        yield from sorted(live, key=lambda member: member.node != self.node)
        last = {member.node: member for member in self.lost}  # of each node, the latest comes last
        for member in self.live:
            last.pop(member.node, None)
        lost = [member for member in last.values() if not self.avoids(member, now)]
        if lost:
            first = self._turn % len(lost)
            self._turn += _LOST_ASKED
            yield from (lost[first:] + lost[:first])[:_LOST_ASKED]

    def address(self, member: Member) -> str:
        """Return how to reach a member: the Unix socket of our own node, TCP for the others."""
        return member.socket if self._is_here and member.node == self.node else member.address

    def candidates(self, key: bytes, now: float, local_first: bool = False) -> Iterator[Member]:
        """Yield the owners in order, then every member; those to avoid come last.

        Our own node comes first where it is likely to have a copy, or where that is asked for.
        """
        routes = self._routes
        first = routes.owners.of(key, _FIRST)
        here = next((m for m in routes.live if m.node == self.node), None) if local_first else None
        here = here or next((m for m in first[:_LIKELY] if m.node == self.node), None)
        if here is not None:
            first = [here, *(member for member in first if member is not here)]
        if self._avoided:
            everybody = self._everybody(routes, key, first)
            yield from sorted([*first, *everybody], key=lambda member: self.avoids(member, now))
            return
        yield from first
        yield from self._everybody(routes, key, first)

    @staticmethod
    def _everybody(routes: _Routes, key: bytes, first: list[Member]) -> Iterator[Member]:
        everybody = [*routes.owners.of(key, len(routes.live)), *routes.live]  # spares, too
        by_number = {member.number: member for member in everybody}
        for member in first:
            by_number.pop(member.number, None)
        yield from by_number.values()

    def chain(self, owners: list[Member]) -> list[Member]:
        """Return the owners in the order in which a put visits them: our own node first."""
        return sorted(owners, key=lambda member: member.node != self.node)

    def member_at(self, error: HoldfastError) -> Member | None:
        """Return the member where an error happened, as far as it is known."""
        return self._routes.by_address.get(getattr(error, "at", ""))

    def avoid(self, member: Member, now: float) -> None:
        """Ask a member nothing for a while."""
        self._avoided.add(member.number, now)

    def avoids(self, member: Member, now: float) -> bool:
        """Whether a member is avoided now."""
        return (member.number, now) in self._avoided
