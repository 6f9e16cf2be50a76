"""What a member believes of the others, and what follows: whom to watch, and what to tell."""

from __future__ import annotations

from math import ceil, log2

from .gossip import MOST, Gossip
from .probe_rota import ProbeRota
from .view import Entry, Member, State, View


class Beliefs:
    """A view, and all that is kept in step with it."""

    def __init__(self, member: Member, view: View) -> None:
        self.view = view
        self.tick = 0  # periods that we lived through
        self.gossip = Gossip()
        self.dead: dict[int, Member] = {}  # by number; nobody was started in their place
        self.raised: set[int] = set()  # suspects that we were the ones to suspect
        self.changes: list[Entry] = []  # not reported yet
        self._member = member
        self._expires: dict[int, int] = {}  # suspect -> the tick at which it counts as dead
        view.merge([Entry(member, 0, State.ALIVE)])
        for entry in view.changes():
            self._watch(entry)
        self.rota = ProbeRota(member.number, view)
        self.gossip.add(self.own())

    def own(self) -> Entry:
        """Return what the view says of ourselves."""
        own = self.view.get(self._member.number)
        assert own is not None
        return own

    @property
    def suspects(self) -> frozenset[int]:
        """The suspects, by number."""
        return frozenset(self._expires)

    def take(self, entry: Entry, tell: bool = True) -> None:
        """Believe `entry`, which must be news."""
        self.view.merge((entry,))
        self.changes.append(entry)
        if tell:
            self.gossip.add(entry)
        self._watch(entry)
        if entry.state is not State.DEAD:
            self.rota.add(entry.member)

    def suspect(self, number: int) -> bool:
        """Suspect a member that was believed to be alive; say whether it was."""
        known = self.view.get(number)
        if known is None or known.state is not State.ALIVE or number == self._member.number:
            return False
        if not self.view.is_live(known.member):
            return False
        self.take(Entry(known.member, known.incarnation, State.SUSPECT))
        self.raised.add(number)
        return True

    def next_tick(self) -> None:
        """Count a period; who was suspect for long enough is dead."""
        self.tick += 1
        if self._expires:
            for number in [n for n, tick in self._expires.items() if tick <= self.tick]:
                suspect = self.view.get(number)
                assert suspect is not None
                self.take(Entry(suspect.member, suspect.incarnation, State.DEAD))

    def news_for(self, target: Member) -> list[Entry]:
        """Return what to tell now; a suspect is told first of all that it is one."""
        news = self.gossip.take(3 * self.view.size.bit_length()) if self.gossip.waiting else []
        if self._expires and target.number in self._expires:
            suspicion = self.view.get(target.number)
            if suspicion is not None and suspicion not in news:
                return [suspicion, *news][:MOST]
        return news

    def suspicion_periods(self) -> int:
        """Periods that a suspect has to refute: longer than news takes to reach everybody."""
        return max(3, ceil(0.75 * log2(self.view.size + 1)))

    def is_latest(self, member: Member) -> bool:
        """Whether no later member of its node is known."""
        latest = self.view.latest(member.node)
        return latest is not None and latest.number == member.number

    def _watch(self, entry: Entry) -> None:
        number = entry.member.number
        self.raised.discard(number)
        self._expires.pop(number, None)
        self.dead.pop(number, None)
        if number == self._member.number or not self.is_latest(entry.member):
            return
        if entry.state is State.SUSPECT:
            self._expires[number] = self.tick + self.suspicion_periods()
        elif entry.state is State.DEAD:
            self.dead[number] = entry.member
