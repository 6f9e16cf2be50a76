"""The state machine of one member that keeps every object at as many copies as its writer wanted.

`step(event, now, rng)` takes what happened and gives what to do; `answer(request)` answers other
members at once. All state of objects is in the holdings, so a restart of nothing is needed when
one is lost: the next comparison finds it.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import msgspec

from ..membership.owners import Owners
from ..membership.view import Member
from ..placement.windows import Roster
from .anti_entropy import AntiEntropy
from .events import (
    MergeInstruction,
    PullInstruction,
    RequestFailedEvent,
    RequestRepliedEvent,
    RestorationEvent,
    RestorationInstruction,
    RestorationTickEvent,
    RestoredEvent,
    RestoreInstruction,
    RestoringKeySpace,
    RostersEvent,
    ViewEvent,
)
from .holdings import ASIDE, ROSTER, Holdings, ObjectSummary, aside, version
from .losses import Losses
from .messages import (
    Compare,
    CompareNotices,
    Confirm,
    Confirmed,
    Exchange,
    OtherView,
    Reply,
    Request,
)
from .notice_exchange import NoticeExchange
from .open_requests import OpenRequests
from .partition_wait import PartitionWait
from .pull_queue import PullQueue
from .trimmer import Trimmer

#: Ticks of which one is enough while a restorer is not `busy`.
RESTING = 3
#: About how many members tell one that joins, or is back, what was dropped meanwhile.
_GREETERS = 8
#: How many keys that were set aside are counted and named.
_COUNTED = 1000
_NAMED = 20


class RestoreStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What `holdfast status` shows of restoring on one member."""

    missing: int = 0  # objects that this member owns and lacks, as far as it knows
    missing_bytes: int = 0
    under_replicated: int = (
        0  # of the objects that it lacks, or holds first although too few nodes live
    )
    uncompared_peers: int = 0  # co-owners not compared with since the view changed
    restored: int = 0
    restored_bytes: int = 0
    trimmed: int = 0
    rate: float = 0.0  # bytes per second that this member fetches at most
    conflicts: int = 0  # objects here that lost their key to another version
    partition_wait_left: float = (
        0.0  # seconds that restoring still waits for many nodes that vanished at once
    )
    set_aside: tuple[str, ...] = ()  # keys of the conflicts, the first of them
    died_together: tuple[tuple[str, ...], ...] = ()  # nodes, each before others' copies were back


class Restorer:
    """One member's part in restoring, trimming and forgetting.

    `rate` is how many bytes per second it fetches at most, `partition_wait` how many seconds it
    waits when more than a third of the nodes vanish at once, that is, within `at_once` seconds.
    """

    def __init__(
        self, me: int, holdings: Holdings, rate: float, partition_wait: float, at_once: float = 3.0
    ) -> None:
        self._me = me
        self._holdings = holdings
        self._owners: Owners | None = None
        self._others: dict[int, Member] = {}  # who lives besides us
        self._viewed = 0.0  # when the view changed
        self._unticked = True  # since then
        self._ask = OpenRequests()
        self._pulls = PullQueue(rate)
        self._partition_wait = PartitionWait(partition_wait, at_once)
        self._anti_entropy = AntiEntropy(me, holdings, self._ask, self._meet)
        self._losses = Losses(me)
        self._trimmer = Trimmer(me, holdings, self._ask, self._meet)
        self._notices = NoticeExchange(holdings, self._ask)

    def step(
        self, event: RestorationEvent, now: float, rng: random.Random
    ) -> list[RestorationInstruction]:
        """Take one event; return what to do."""
        self._ask.now = now
        match event:
            case ViewEvent(owners, live, lost):
                self._losses.viewed(owners.members, live, lost)
                self._use(owners, live, now, rng)
            case RostersEvent(rosters):
                self._notices.learn([ROSTER + roster.encode() for roster in rosters])
            case RestorationTickEvent():
                self._tick(now, rng)
            case RequestRepliedEvent(ticket, reply):
                self._ask.answered(ticket, reply)
                self._anti_entropy.go_on()
            case RestoredEvent(ticket, size):
                self._pulls.done(ticket, size)
            case RequestFailedEvent(ticket, gone):
                self._pulls.failed(ticket, now, gone)
                self._ask.answered(ticket, None)
                self._anti_entropy.go_on()
        return self._instructions(now)

    @property
    def busy(self) -> bool:
        """Whether the next tick matters; else some may be left out, to let an idle node sleep."""
        return bool(self._pulls) or self._anti_entropy.has_more or self._notices.has_news

    @property
    def rosters(self) -> tuple[Roster, ...]:
        """Those that we have heard of; owners are to be computed anew when it is another tuple."""
        return self._notices.rosters

    @property
    def missing(self) -> int:
        """How many objects this member owns and lacks, as far as it knows."""
        return len(self._pulls)

    @property
    def restored(self) -> tuple[int, int]:
        """How many copies were restored so far, and their bytes."""
        return self._pulls.copies, self._pulls.bytes

    def partition_wait_left(self, now: float) -> float:
        """Return how many seconds restoring still waits for nodes that vanished at once."""
        return self._partition_wait.left(now)

    def answer(self, request: Request) -> Reply:
        """Answer another member."""
        if isinstance(request, CompareNotices):
            return self._notices.compare(request)
        if not isinstance(request, Compare | Exchange | Confirm):
            return self._notices.exchange(request)
        owners = self._owners
        known = owners is not None and request.identity == owners.identity
        if known and isinstance(request, Confirm):
            return self._confirm(request)
        # Who owns nothing has nothing to compare.
        if owners is None or not known or request.sender not in owners.members:
            return OtherView(owners.identity if owners else 0)
        if isinstance(request, Compare):
            return self._anti_entropy.compare(request)
        assert isinstance(request, Exchange)
        return self._anti_entropy.exchange(request)

    def status(self, now: float) -> RestoreStatus:
        """Tell how far restoring is."""
        conflicts = self._holdings.keys(ASIDE, _COUNTED)
        return RestoreStatus(
            missing=self.missing,
            missing_bytes=self._pulls.missing_bytes,
            under_replicated=len(self._pulls) + self._holdings.short(),
            uncompared_peers=self._anti_entropy.uncompared_peers(),
            restored=self._pulls.copies,
            restored_bytes=self._pulls.bytes,
            trimmed=self._trimmer.trimmed,
            rate=self._pulls.rate,
            conflicts=len(conflicts),
            partition_wait_left=self.partition_wait_left(now),
            set_aside=tuple(key.decode(errors="replace") for key in conflicts[:_NAMED]),
            died_together=self._losses.died_together(),
        )

    def _use(self, owners: Owners, live: Sequence[Member], now: float, rng: random.Random) -> None:
        known, begins = self._others, self._owners is None
        self._owners = owners
        self._viewed = now
        self._unticked = True
        self._others = {member.number: member for member in live if member.number != self._me}
        self._partition_wait.viewed(frozenset(member.node for member in live), now)
        self._anti_entropy.use(owners, rng)
        self._trimmer.use()
        self._pulls.keep(self._wanted)
        if begins:
            return
        new = [member for number, member in self._others.items() if number not in known]
        if known:
            greeted = [one for one in new if rng.random() * len(self._others) < _GREETERS]
        else:  # it is we who are new, or one of us was alone and nobody else remembers
            greeted = rng.sample(new, min(_GREETERS, len(new)))
        for member in greeted:
            self._notices.compare_with(member)

    def _tick(self, now: float, rng: random.Random) -> None:
        self._unticked = False
        self._losses.tick(
            not (self._pulls or self._anti_entropy.uncompared_peers() or self._holdings.short())
        )
        self._anti_entropy.tick(rng)
        self._notices.tick([*self._others.values()], rng)
        if self._owners is not None and not self._partition_wait.left(now):
            self._trimmer.tick(self._owners, now)

    def _lack(self, held: ObjectSummary, source: int) -> None:
        due = self._due(held)
        if due and not self._wanted(held):
            return  # its delay begins when we own it
        self._pulls.add(held, source, due)

    def _meet(self, theirs: ObjectSummary, source: int) -> ObjectSummary | None:
        """See that another member holds this; return what we hold instead, if that wins."""
        ours = self._holdings.held(theirs.key)
        if ours is not None:
            if version(ours) > version(theirs):
                return ours
            if version(ours) == version(theirs):
                self._agree(ours, theirs)
                return None
            # Until the winner comes the key would stand empty here: not for long, then.
            if self._partition_wait.left(self._ask.now) or not self._holdings.has_room(theirs):
                return None
            self._holdings.move_aside(ours.key, ours.size, ours.crc32c, aside(ours))
        self._lack(theirs, source)
        return None

    def _agree(self, ours: ObjectSummary, theirs: ObjectSummary) -> None:
        """Both hold it; a put that wanted more copies may have come to an end at one only."""
        if theirs.copies > ours.copies or theirs.least > ours.least:
            self._holdings.raise_copies(ours, theirs.copies, theirs.least)

    def _confirm(self, request: Confirm) -> Confirmed:
        confirmed, other = [], []
        for theirs in request.held:
            ours = self._holdings.held(theirs.key)
            if ours is not None and version(ours) == version(theirs):
                self._agree(ours, theirs)
                confirmed.append(theirs.key)
            elif (mine := self._meet(theirs, request.sender)) is not None:
                other.append(mine)
        return Confirmed(confirmed, other)

    def _wanted(self, held: ObjectSummary) -> bool:
        """Whether we own an object and lack it still."""
        assert self._owners is not None
        owners = self._owners.of(held.key, held.copies)
        return any(m.number == self._me for m in owners) and not self._holdings.held(held.key)

    def _due(self, held: ObjectSummary) -> float:
        """Return when an object may be restored of which we learn now that we lack it."""
        assert self._owners is not None
        space = self._owners.space(held.key)
        return self._viewed + space.restore_after if space and space.restore_after else 0.0

    def _instructions(self, now: float) -> list[RestorationInstruction]:
        # A view of this moment is on its way to those who have another one.
        out: list[RestorationInstruction] = [
            instruction
            for instruction in self._ask.instructions
            if not (self._unticked and isinstance(instruction, MergeInstruction))
        ]
        self._ask.instructions.clear()
        owners = self._owners
        if owners is None or self._partition_wait.left(now):
            return out
        # Whoever lives may hold what it owns no more.
        begun = self._pulls.start(now, self._others, self._wanted, self._ask.ticket)
        out += (
            _restoring(owners, ticket, held, self._others[source]) for ticket, held, source in begun
        )
        return out


def _restoring(
    owners: Owners, ticket: int, held: ObjectSummary, source: Member
) -> RestoreInstruction:
    """Say how an object comes back."""
    space = owners.space(held.key)
    if isinstance(space, RestoringKeySpace):
        return space.restoring(ticket, held, source)
    return PullInstruction(ticket, held, source)
