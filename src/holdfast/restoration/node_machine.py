"""One node as a pure state machine: membership, placement and restoring together.

`step(event, now, rng)` takes what happened and returns what to do. The agent drives it with sockets
and a clock, the simulator with neither. Membership comes first; when it changes who owns what, the
holdings see that before restoring does, and before anything else happens. So they do when restoring
hears of a new roster, under the same view.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import msgspec

from ..membership import events as membership
from ..membership.key_spaces import KeySpace
from ..membership.owners import Owners, lost_nodes
from ..membership.swim import Swim
from ..membership.view import Entry, Member, View
from ..placement.windows import Roster
from . import events as restoring
from .holdings import Holdings
from .messages import Reply, Request
from .restorer import RESTING, Restorer, RestoreStatus

#: Deaths within this many periods count as one event.
_AT_ONCE = 10


class PlacedInstruction(msgspec.Struct, frozen=True):
    """Other members own objects from now on; the holdings know it already."""

    owners: Owners
    live: Sequence[Member]
    lost: Sequence[Member]


class SuspectsInstruction(msgspec.Struct, frozen=True):
    """These members are suspected from now on, and no others."""

    numbers: frozenset[int]


class AwayInstruction(msgspec.Struct, frozen=True):
    """Others took us for dead, and told us nothing meanwhile."""


class NewsInstruction(msgspec.Struct, frozen=True):
    """What answers to probes are to carry from now on."""

    news: list[Entry]


#: `restoring.ViewEvent` is this machine's own.
NodeEvent = membership.MembershipEvent | restoring.RestorationEvent
NodeInstruction = (
    membership.MembershipInstruction
    | restoring.AskInstruction
    | restoring.RestoreInstruction
    | PlacedInstruction
    | SuspectsInstruction
    | AwayInstruction
    | NewsInstruction
)


class NodeMachine:
    """The machine of `member`, which begins with `view` and decides about `holdings`.

    A period is in seconds; `restore_rate` is in bytes per second, and `partition_wait` how many
    seconds restoring waits when more than a third of the nodes vanish at once. `key_spaces` have
    owners of their own.
    """

    def __init__(
        self,
        member: Member,
        view: View,
        holdings: Holdings,
        *,
        period: float,
        virtual_nodes: int,
        restore_rate: float,
        partition_wait: float,
        key_spaces: Sequence[KeySpace] = (),
        restorer: type[Restorer] = Restorer,
    ) -> None:
        self.member = member
        self.swim = Swim(member, view, period)
        self.restorer = restorer(
            member.number, holdings, restore_rate, partition_wait, _AT_ONCE * period
        )
        self.changes = 0  # of the view
        self.incarnation = 0
        self.owners: Owners | None = None
        self._holdings = holdings
        self._virtual_nodes = virtual_nodes
        self._key_spaces = key_spaces
        self._rosters: tuple[Roster, ...] = ()
        self._suspects: frozenset[int] = frozenset()
        self._news: list[Entry] = []
        self._ticks = 0  # of restoring

    @property
    def view(self) -> View:
        """The members as this one knows them."""
        return self.swim.view

    def begin(self, now: float, rng: random.Random) -> list[NodeInstruction]:
        """Put the view with which we begin into force."""
        out: list[NodeInstruction] = []
        self._place(out, now, rng)
        self._suspect(out)
        return out

    def step(self, event: NodeEvent, now: float, rng: random.Random) -> list[NodeInstruction]:
        """Take one event; return what to do."""
        out: list[NodeInstruction] = []
        if isinstance(event, restoring.RestorationTickEvent):
            self._ticks += 1
            if self.restorer.busy or self._ticks % RESTING == 0:
                self._restore(event, out, now, rng)
        elif isinstance(event, restoring.RestorationEvent):
            self._restore(event, out, now, rng)
        else:
            self._learn(event, out, now, rng)
        return out

    def answer(self, request: Request) -> Reply:
        """Answer another member's restoring; an `AskedEvent` is to follow."""
        return self.restorer.answer(request)

    def restore_status(self, now: float) -> RestoreStatus:
        """Tell how far restoring is."""
        return self.restorer.status(now)

    def _learn(
        self,
        event: membership.MembershipEvent,
        out: list[NodeInstruction],
        now: float,
        rng: random.Random,
    ) -> None:
        wanted = self.swim.step(event, now, rng)
        out += wanted
        changed = any(isinstance(one, membership.ViewInstruction) for one in wanted)
        if changed:
            self.changes += 1
            self._suspect(out)
            own = self.view.get(self.member.number)
            if own is not None and own.incarnation != self.incarnation:
                self.incarnation = own.incarnation
                out.append(AwayInstruction())
        # Of some who came and died we may not have heard while they lived.
        if (
            self.owners is None
            or self.view.identity != self.owners.identity
            or (changed and lost_nodes(self.view) != self.owners.lost)
        ):
            self._place(out, now, rng)
        if self.swim.news is not self._news:
            self._news = self.swim.news
            out.append(NewsInstruction(self._news))

    def _place(self, out: list[NodeInstruction], now: float, rng: random.Random) -> None:
        """Put who lives now into force."""
        view = self.view
        self._rosters = self.restorer.rosters
        self.owners = Owners(view, self._virtual_nodes, self._key_spaces, self._rosters)
        self._holdings.place(self.owners)
        placed = PlacedInstruction(self.owners, view.live(), view.lost())
        out.append(placed)
        viewed = restoring.ViewEvent(placed.owners, placed.live, placed.lost)
        self._restore(viewed, out, now, rng)

    def _suspect(self, out: list[NodeInstruction]) -> None:
        if self.swim.suspects != self._suspects:
            self._suspects = self.swim.suspects
            out.append(SuspectsInstruction(self._suspects))

    def _restore(
        self,
        event: restoring.RestorationEvent,
        out: list[NodeInstruction],
        now: float,
        rng: random.Random,
    ) -> None:
        for wanted in self.restorer.step(event, now, rng):
            if isinstance(wanted, restoring.MergeInstruction):
                out.append(membership.SyncInstruction(wanted.member))
            else:
                out.append(wanted)
        if self.restorer.rosters is not self._rosters:
            self._place(out, now, rng)
