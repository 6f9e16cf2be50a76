"""SWIM: every member learns of every death, and nobody is taken for dead for long who is not.

A pure state machine: `step(event, now, rng)` returns what is to be done. Each period it probes one
other member; one that does not answer is probed through three helpers, then suspected, and dead if
it does not refute that in time. Whatever changes travels with the probes and their answers.

What differs from the paper (Das, Gupta, Motivala, DSN 2002):

- Suspects are told so, by those who raised the suspicion and those who talk to them, and answer at
  once. Only a member itself takes a suspicion back, or its death.
- A whole view is exchanged where views differ though nothing is on its way: gossip that was lost in
  a cut is not told again. What an exchange says of deaths is taken as suspicion: two halves of a
  cluster that meet again must not believe each other that all are dead.
- Now and then the dead are told that they are: they may have been behind a cut.
- Word of a death is passed on when it is heard, not at the next period: what the dead held is
  restored under a view that all have, so the last to hear holds up the rest.
- Suspicion is counted in periods that we lived through. Who was stopped must not wake up and
  declare dead whom it could not hear.
"""

from __future__ import annotations

from random import Random

from .beliefs import Beliefs
from .events import (
    ExchangedEvent,
    LeaveEvent,
    MemberDoubtEvent,
    MembershipEvent,
    MembershipInstruction,
    MemberTickEvent,
    ProbeAnsweredEvent,
    ProbeFailedEvent,
    ProbeHeardEvent,
    ProbeInstruction,
    SyncInstruction,
    ViewInstruction,
)
from .gossip import MOST
from .view import Entry, Member, State, View

HELPERS = 3
EXTRA_GOSSIPS = 2
#: How many members one that leaves tells.
FAREWELLS = 5

# In periods:
DIRECT_DEADLINE = 1.0
HELPED_DEADLINE = 1.5
#: A Python loop that stands still for longer counts as dead, though the core still answers.
OLDEST_LOOP = 10
#: Between ticks; after more we were stopped, and what was asked before says nothing.
LONGEST_SLEEP = 3
#: Who met no view like its own for this many times the length of a suspicion exchanges views though
#: there is news.
SYNC_ANYWAY = 10

#: How likely a member is to knock at a dead one in a period ...
KNOCK = 0.2
#: ... and in large clusters less, so that a dead member hears of no more than these in a period.
KNOCKS_HEARD = 2


class _Attempt:
    """One member being probed, directly or by several helpers."""

    __slots__ = ("helped", "left", "target")

    def __init__(self, target: Member, left: int, helped: bool) -> None:
        self.target = target
        self.left = left  # tickets that may still be answered; 0: settled
        self.helped = helped


class Swim:
    """The machine of `member`, which keeps `view` up to date."""

    def __init__(self, member: Member, view: View, period: float) -> None:
        self.member = member
        self.view = view
        self._period = period
        self._beliefs = Beliefs(member, view)
        self._rota = self._beliefs.rota
        self._gossip = self._beliefs.gossip
        self._open: dict[int, _Attempt] = {}  # by ticket
        self._ticket = 0
        self._ticked: float | None = None  # when
        self._synced = 0  # at which tick we asked for a whole view
        self._agreed = 0  # at which tick we last met our own view
        self._hurried = 0  # at which tick we passed a death on at once
        self._left = False

    @property
    def news(self) -> list[Entry]:
        """What answers to probes shall carry; the same list as long as it is the same news."""
        return self._gossip.news()

    @property
    def suspects(self) -> frozenset[int]:
        """The members that are suspected at this moment, by number."""
        return self._beliefs.suspects

    def detection(self) -> float:
        """Return how long a death goes unnoticed as a rule, in seconds."""
        # Until somebody probes it, the probe, those of the helpers, and the suspicion.
        periods = 1 + DIRECT_DEADLINE + HELPED_DEADLINE + self._beliefs.suspicion_periods()
        return periods * self._period

    def step(self, event: MembershipEvent, now: float, rng: Random) -> list[MembershipInstruction]:
        """Take one event in and return what to do; `now` is in seconds and never goes back."""
        out: list[MembershipInstruction] = []
        if self._left:
            return out
        if isinstance(event, ProbeAnsweredEvent):
            self._answered(event, out, rng)
        elif isinstance(event, MemberTickEvent):
            self._tick(now, out, rng)
        elif isinstance(event, ProbeHeardEvent):
            self._heard(event, out, rng)
        elif isinstance(event, ProbeFailedEvent):
            self._failed(event.ticket, out, rng)
        elif isinstance(event, ExchangedEvent):
            self._exchanged(event.entries, out, rng)
        elif isinstance(event, MemberDoubtEvent):
            self._suspect(event.number, out)
        elif isinstance(event, LeaveEvent):
            self._leave(out, rng)
        if self._beliefs.changes:
            out.append(ViewInstruction(self._beliefs.changes))
            self._beliefs.changes = []
        return out

    # What happens

    def _tick(self, now: float, out: list[MembershipInstruction], rng: Random) -> None:
        if self._ticked is not None and now - self._ticked > LONGEST_SLEEP * self._period:
            self._open.clear()
        self._ticked = now
        beliefs = self._beliefs
        beliefs.next_tick()
        target = self._rota.following(rng)
        if target is not None:
            attempt = _Attempt(target, 1, helped=False)
            self._ask(attempt, None, beliefs.news_for(target), DIRECT_DEADLINE, out)
        if self._gossip.waiting:
            self._gossip_to_some(out, rng)
        for number in beliefs.raised:
            self._tell_it_itself(number, out)
        if beliefs.dead:
            self._knock(out, rng)

    def _answered(
        self, event: ProbeAnsweredEvent, out: list[MembershipInstruction], rng: Random
    ) -> None:
        attempt = self._open.get(event.ticket)
        if event.entries:
            self._learn(event.entries, attempt.target.number if attempt else None, out, rng)
        if attempt is None:
            return
        if event.age > OLDEST_LOOP * self._period:
            self._failed(event.ticket, out, rng)
            return
        del self._open[event.ticket]
        attempt.left = 0
        self._compare(event.identity, attempt.target, out)

    def _failed(self, ticket: int, out: list[MembershipInstruction], rng: Random) -> None:
        attempt = self._open.pop(ticket, None)
        if attempt is None or attempt.left == 0:
            return
        attempt.left -= 1
        if attempt.left:
            return
        target = attempt.target
        helpers: list[Member] = []
        if not attempt.helped:
            helpers = self._rota.some(HELPERS, rng, but=(target.number,))
        again = _Attempt(target, len(helpers), helped=True)
        for helper in helpers:
            self._ask(again, helper, [], HELPED_DEADLINE, out)
        if not helpers:
            self._suspect(target.number, out)

    def _heard(self, event: ProbeHeardEvent, out: list[MembershipInstruction], rng: Random) -> None:
        if event.sender == self.member.number:
            return
        if event.entries:
            self._learn(event.entries, event.sender, out, rng)
        known = self.view.get(event.sender)
        if known is None:
            return
        if known.state is not State.ALIVE:
            self._tell_it_itself(event.sender, out)
        self._compare(event.identity, known.member, out)

    def _exchanged(
        self, entries: list[Entry], out: list[MembershipInstruction], rng: Random
    ) -> None:
        for entry in self.view.unlike(entries):
            known = self.view.get(entry.member.number)
            if entry.member.number == self.member.number:
                self._refute(entry, out, rng)
                continue
            if entry.state is State.DEAD and known and known.state is not State.DEAD:
                entry = Entry(entry.member, entry.incarnation, State.SUSPECT)  # noqa: PLW2901
            if known is None or _beats(entry, known):
                # Everybody whose view differs exchanges it too: no need to gossip.
                self._beliefs.take(entry, tell=False)

    def _leave(self, out: list[MembershipInstruction], rng: Random) -> None:
        end = Entry(self.member, self._beliefs.own().incarnation, State.DEAD)
        self._beliefs.take(end)
        self._left = True
        for peer in self._rota.some(FAREWELLS, rng):
            self._tell(peer, [end], out)

    # What follows

    def _learn(
        self,
        entries: list[Entry],
        sender: int | None,
        out: list[MembershipInstruction],
        rng: Random,
    ) -> None:
        """Take news in; tell `sender` if it has not heard that its suspects took that back."""
        later: list[Entry] = []
        for entry in self.view.unlike(entries):
            number = entry.member.number
            known = self.view.get(number)
            if number == self.member.number:
                self._refute(entry, out, rng)
                if entry.state is not State.ALIVE:
                    later.append(self._beliefs.own())
            elif known is None or _beats(entry, known):
                self._beliefs.take(entry)
            elif entry.state is not State.ALIVE and entry.incarnation < known.incarnation:
                later.append(known)
        if any(change.state is State.DEAD for change in self._beliefs.changes):
            self._hurry(out, rng)
        if later and sender is not None:
            teller = self.view.get(sender)  # the news may have told who it is
            if teller is not None:
                self._tell(teller.member, later, out)

    def _refute(self, entry: Entry, out: list[MembershipInstruction], rng: Random) -> None:
        """Answer what is said of ourselves: we live."""
        if entry.state is not State.ALIVE and entry.incarnation >= self._beliefs.own().incarnation:
            self._beliefs.take(Entry(self.member, entry.incarnation + 1, State.ALIVE))
            self._gossip_to_some(out, rng)

    def _suspect(self, number: int, out: list[MembershipInstruction]) -> None:
        if self._beliefs.suspect(number):
            self._tell_it_itself(number, out)

    def _compare(self, identity: int, other: Member, out: list[MembershipInstruction]) -> None:
        """Exchange views with `other` if they differ and nothing on its way will change that."""
        tick = self._beliefs.tick
        if identity == self.view.identity:
            self._agreed = tick
        elif self._synced != tick:
            pending = len(self._gossip.waiting)
            longest = SYNC_ANYWAY * self._beliefs.suspicion_periods()
            if pending == 0 or pending > MOST or tick - max(self._agreed, self._synced) > longest:
                self._synced = tick
                out.append(SyncInstruction(other))

    def _knock(self, out: list[MembershipInstruction], rng: Random) -> None:
        dead = self._beliefs.dead
        if rng.random() < min(KNOCK, KNOCKS_HEARD * len(dead) / max(1, self.view.size)):
            member = rng.choice(list(dead.values()))
            entry = self.view.get(member.number)
            if entry is not None and self._beliefs.is_latest(member):
                # It may never have heard of us: whom should it answer?
                self._tell(member, [entry, self._beliefs.own()], out)
            else:
                del dead[member.number]  # it was restarted: nobody is behind that door

    def _gossip_to_some(self, out: list[MembershipInstruction], rng: Random) -> None:
        for peer in self._rota.some(EXTRA_GOSSIPS, rng):
            news = self._beliefs.news_for(peer)
            if news:
                self._tell(peer, news, out)

    def _hurry(self, out: list[MembershipInstruction], rng: Random) -> None:
        # Once a period: where many die at once, the rest travels with this or with the next.
        if self._hurried != self._beliefs.tick:
            self._hurried = self._beliefs.tick
            self._gossip_to_some(out, rng)

    def _tell_it_itself(self, number: int, out: list[MembershipInstruction]) -> None:
        entry = self.view.get(number)
        assert entry is not None
        # Who we are, too: if we joined behind a cut, it does not know us and could not answer.
        self._tell(entry.member, [entry, self._beliefs.own()], out)

    def _tell(self, target: Member, news: list[Entry], out: list[MembershipInstruction]) -> None:
        out.append(ProbeInstruction(0, target, None, news, DIRECT_DEADLINE * self._period))

    def _ask(
        self,
        attempt: _Attempt,
        via: Member | None,
        news: list[Entry],
        periods: float,
        out: list[MembershipInstruction],
    ) -> None:
        self._ticket += 1
        self._open[self._ticket] = attempt
        out.append(
            ProbeInstruction(self._ticket, attempt.target, via, news, periods * self._period)
        )


def _beats(entry: Entry, other: Entry) -> bool:
    return (entry.incarnation, entry.state) > (other.incarnation, other.state)
