"""What a client does to find, put and drop objects: generators without I/O.

Each yields a step, is sent what came of it, or has the error thrown into it. What drives them
(`Objects` over sockets, the simulator over a simulated network) carries the steps out.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Iterator
from itertools import islice
from typing import Any

import msgspec

from ..client.routing import Routing
from ..errors import (
    Busy,
    Damaged,
    Dropped,
    Full,
    HoldfastError,
    NotEnoughNodes,
    NotFound,
    Refused,
    StaleView,
    TryAgain,
    Unavailable,
)
from ..membership.view import Member

#: Between two looks for a change of view, in seconds.
_PAUSE = 0.05
#: Of a member that does not answer. Another session may have taken the port of one that died: its
#: agent refuses our job key.
FAILURES = (TryAgain, Refused)
#: How many members that do not answer are named.
_NAMED = 8
#: How many owners are asked again before an object counts as not found.
_AGAIN = 2


class LookStep(msgspec.Struct, frozen=True):
    """Ask a member for the object, or about it; sent back: what it answered.

    Another member that lives at its address by now answers `Unavailable`, not `NotFound`. While
    dropping, what is asked and sent back is how many copies were wanted.
    """

    member: Member


class PutStep(msgspec.Struct, frozen=True):
    """Store the object at all members of `chain`; `owners` is the list to be checked by each.

    If `up_to` is not 0 this many copies are wanted as soon as there are nodes for them.
    """

    chain: list[Member]
    owners: list[int]
    up_to: int = 0


class DropStep(msgspec.Struct, frozen=True):
    """Drop the object at a member, which checks `owners`; `copies` were wanted."""

    member: Member
    owners: list[int]
    copies: int


class DropBelowStep(msgspec.Struct, frozen=True):
    """Let a member drop all versions below one."""

    member: Member


class VerifyStep(msgspec.Struct, frozen=True):
    """Let a member read its copy again, and drop it if it is bad."""

    member: Member


class RefreshStep(msgspec.Struct, frozen=True):
    """Ask an agent for its view; sent back: whether it changed who lives."""


class MergeStep(msgspec.Struct, frozen=True):
    """Exchange views with a member; sent back: whether ours changed who lives."""

    member: Member


class DoubtStep(msgspec.Struct, frozen=True):
    """Tell an agent that a member failed us, with which key, and how."""

    member: Member
    key: bytes
    cause: str


class SleepStep(msgspec.Struct, frozen=True):
    """Wait."""

    seconds: float


Step = (
    LookStep
    | PutStep
    | DropStep
    | DropBelowStep
    | VerifyStep
    | RefreshStep
    | MergeStep
    | DoubtStep
    | SleepStep
)
Steps = Generator[Step, Any, Any]


class ObjectSteps:
    """The steps of one client."""

    def __init__(
        self, routing: Routing, clock: Callable[[], float], rng: random.Random, put_retry_for: float
    ) -> None:
        self._routing = routing
        self._clock = clock
        self._rng = rng
        self._put_retry_for = put_retry_for

    def find(self, key: bytes, local_first: bool = False) -> Steps:
        """Ask for an object where it should be, then everywhere (rule 7)."""
        while True:
            missing: list[str] = []
            view = self._routing.owners.identity
            for member in self._candidates(key, local_first):
                try:
                    return (yield from self._look(member))
                except Dropped:
                    raise Dropped(f"{show(key)} was dropped; a drop is final") from None
                except NotFound:
                    continue
                except FAILURES as error:
                    yield from self._blame(member, key, error)
                    missing.append(member.node)
                except Damaged:
                    # On its way or at rest? Its agent looks again, and drops a copy that is bad.
                    yield VerifyStep(member)
                    missing.append(member.node)
            if not (yield from self._newer(view)):
                break  # else there are members that we did not know
        missing += [f"{member.node} (lost)" for member in self._routing.lost]
        if missing:
            names = ", ".join(dict.fromkeys(missing))
            raise Unavailable(f"{show(key)} was not found, but {names} may have held it")
        raise NotFound(f"no node has {show(key)}")

    def _look(self, member: Member) -> Steps:
        try:
            return (yield LookStep(member))
        except Unavailable:
            # A connection that broke says little of the agent behind it: it may have met a copy
            # that it cannot read, and has given it up by now. One that is gone refuses at once.
            return (yield LookStep(member))

    def _candidates(self, key: bytes, local_first: bool) -> Iterator[Member]:
        yield from self._routing.candidates(key, self._clock(), local_first)
        # Once more: what moved while we asked around is with its owners by now.
        yield from islice(self._routing.candidates(key, self._clock()), _AGAIN)

    def put(self, key: bytes, copies: int, or_fewer: bool = False) -> Steps:
        """Store an object at all its owners (rules 4 and 5), where one will do if there are few."""
        trouble = _Trouble(key, self._clock() + self._put_retry_for)
        damaged = False
        while True:
            under = self._routing.owners
            owners = under.of(key, copies)
            least = 1 if or_fewer else copies
            if len(owners) < least:
                if (yield from self._newer(under.identity)):
                    continue
                raise NotEnoughNodes(
                    f"{least} copies need as many nodes, but only "
                    f"{self._alive(len(owners))}{trouble}"
                )
            if (yield from self._unreachable(owners, trouble)):
                continue
            try:
                numbers = [member.number for member in owners]
                yield PutStep(self._routing.chain(owners), numbers, copies if or_fewer else 0)
            except TryAgain as error:
                trouble.keep(error)
                yield from self._overcome(trouble)
            except Full as error:
                member = self._routing.member_at(error)
                error.args = (f"{member.node if member else 'a node'}: {error}",)
                raise
            except Damaged:
                # A copy from before that went bad has been dropped by now: once more is enough.
                if damaged:
                    raise
                damaged = True
            else:
                return

    def drop(self, key: bytes, copies: int) -> Steps:
        """Drop an object at all its owners, for ever (rule 9); the others will hear of it."""
        trouble = _Trouble(key, self._clock() + self._put_retry_for)
        done: set[int] = set()
        while True:
            under = self._routing.owners
            owners = under.of(key, copies)
            # A short list passes where nobody has heard of more members either.
            if len(owners) < copies and (yield from self._newer(under.identity)):
                continue
            if not owners:
                raise NotEnoughNodes(f"no live node could record the drop of {show(key)}")
            left = [member for member in owners if member.number not in done]
            if not left:
                return
            if (yield from self._unreachable(left, trouble)):
                continue
            try:
                for member in left:
                    yield DropStep(member, [owner.number for owner in owners], copies)
                    done.add(member.number)
            except TryAgain as error:
                trouble.keep(error)
                yield from self._overcome(trouble)
                if isinstance(error, StaleView):
                    copies = max(copies, (yield from self._copies_known_to(error)))

    def drop_below(self, prefix: bytes) -> Steps:
        """Let all members drop versions (rule 9): in the end each has answered, or has died."""
        until, told = self._clock() + self._put_retry_for, set[int]()
        causes: dict[str, str] = {}
        yield RefreshStep()
        while left := [member for member in self._routing.live if member.number not in told]:
            now = self._clock()
            ready = [member for member in left if not self._routing.avoids(member, now)]
            for member in ready:
                if causes and self._clock() >= until:  # a cut with many behind it
                    break
                try:
                    yield DropBelowStep(member)
                    told.add(member.number)
                except FAILURES as error:
                    causes[member.node] = str(error)
                    yield from self._blame(member, prefix, error)
            left = [member for member in left if member.number not in told]
            if left and self._clock() >= until:
                missing = _named(left)
                why = "".join(f"; {node}: {cause}" for node, cause in causes.items())
                raise Unavailable(
                    f"{missing} did not answer and may still hold versions of {show(prefix)}; "
                    f"drop them again, which is safe{why}"
                )
            # Those that failed speak up, or are found to be dead.
            if left and not (yield RefreshStep()):
                yield SleepStep(_PAUSE)
        if not told:
            raise Unavailable(f"no node answered, so no version of {show(prefix)} was dropped")

    def _copies_known_to(self, refusal: StaleView) -> Steps:
        """Ask who refused our list of owners: it may be short because more copies are wanted."""
        member = self._routing.member_at(refusal)
        if member is None:
            return 0
        try:
            return (yield LookStep(member))
        except HoldfastError:
            return 0

    def _newer(self, view: int) -> Steps:
        """Ask for a newer view than `view`; another thread may have brought it in meanwhile."""
        yield RefreshStep()
        return self._routing.owners.identity != view

    def _unreachable(self, owners: list[Member], trouble: _Trouble) -> Steps:
        """Wait a little if an owner has just failed: either it is replaced, or it speaks up."""
        now = self._clock()
        silent = [member.node for member in owners if self._routing.avoids(member, now)]
        if not silent:
            return False
        trouble.last = trouble.last or Unavailable(
            f"{', '.join(silent)} failed recently and no other node has taken over yet; try again"
        )
        trouble.check(now)
        if not (yield RefreshStep()):
            yield SleepStep(_PAUSE)
        return True

    def _overcome(self, trouble: _Trouble) -> Steps:
        """Do what lets the same request succeed the next time."""
        assert trouble.last is not None
        member = self._routing.member_at(trouble.last)
        if isinstance(trouble.last, Busy):
            # Two writers of one key: each lets go at once, so one of them gets through.
            trouble.check(self._clock())
            yield SleepStep(self._rng.uniform(0.001, 0.02))
        elif isinstance(trouble.last, StaleView):
            trouble.check(self._clock())
            yield RefreshStep() if member is None else MergeStep(member)
            if trouble.stale:  # gossip needs its time
                yield SleepStep(_PAUSE)
            trouble.stale = True
        elif member is None:
            trouble.check(self._clock())
            if not (yield RefreshStep()):
                yield SleepStep(_PAUSE)
        else:
            trouble.causes[member.node] = str(trouble.last)
            yield from self._blame(member, trouble.key, trouble.last)

    def _blame(self, member: Member, key: bytes, error: HoldfastError) -> Steps:
        self._routing.avoid(member, self._clock())
        yield DoubtStep(member, key, f"{type(error).__name__}: {error}")

    def _alive(self, owners: int) -> str:
        """Say how many can own something."""
        known = self._routing.owners
        spares = " (spares own nothing)" if len(self._routing.live) > len(known.members) else ""
        return f"{owners} of {owners + len(known.lost)} are alive{spares}"


class _Trouble:
    """What went wrong so far with one request, and when to give up."""

    def __init__(self, key: bytes, until: float) -> None:
        self.key = key
        self._until = until
        self.last: TryAgain | None = None
        self.causes: dict[str, str] = {}
        self.stale = False

    def keep(self, error: TryAgain) -> None:
        """Note what went wrong."""
        # With its traceback it would keep the frame that keeps it, and connections with them.
        self.last = error.with_traceback(None)

    def check(self, now: float) -> None:
        """Raise what went wrong last if time is up."""
        if now < self._until or self.last is None:
            return
        error, self.last = self.last, None
        try:
            raise error
        finally:
            del error

    def __str__(self) -> str:
        return "".join(f"; {node}: {error}" for node, error in self.causes.items())


def _named(members: list[Member]) -> str:
    """Name some members, and say how many more there are."""
    more = f" and {len(members) - _NAMED} more" if len(members) > _NAMED else ""
    return ", ".join(member.node for member in members[:_NAMED]) + more


def show(key: bytes) -> str:
    """Return a key as it is shown in messages."""
    return repr(key.decode(errors="replace"))
