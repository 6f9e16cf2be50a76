"""Agents with a bug planted in them, to see that the checkers find it."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import msgspec

from .._core import IndexedObject, crc32c, tombstone
from ..errors import Unavailable
from ..membership.events import ProbeInstruction
from ..membership.owners import Owners
from ..objects.steps import FAILURES, DropBelowStep, ObjectSteps, RefreshStep, Steps
from ..restoration.events import RestorationEvent, RestorationInstruction
from ..restoration.holdings import Holdings, ObjectSummary
from ..restoration.restorer import Restorer
from ..restoration.trimmer import Trimmer
from .agents import Agent
from .clients import Client
from .network import NetworkCall
from .store import Store, Writer


class NoFence(Agent):
    """Takes puts and drops whatever owners their sender believes in."""

    fenced = False


class AnyList(Agent):
    """Takes any list that leaves out owners."""

    def _may_leave_out(self, key: bytes, without: Sequence[int], copies: int) -> None:
        pass


class _HastyTrimmer(Trimmer):
    def tick(self, owners: Owners, now: float) -> None:
        for held in self._holdings.strays(100, b""):
            self._holdings.trim(held.key, held.size, held.crc32c)


class _HastyRestorer(Restorer):
    def __init__(
        self, me: int, holdings: Holdings, rate: float, partition_wait: float, at_once: float = 3.0
    ) -> None:
        super().__init__(me, holdings, rate, partition_wait, at_once)
        self._trimmer = _HastyTrimmer(me, holdings, self._ask, self._meet)


class UnconfirmedTrim(Agent):
    """Removes what it does not own without asking the owners."""

    restorer_class = _HastyRestorer


class _ForgetfulStore(Store):
    def drop(self, key: bytes) -> None:
        if key in self.objects:
            self._index.evict(self.objects[key].indexed)
            self._removed(key, "dropped")


class LostTombstone(Agent):
    """Drops objects and does not remember it."""

    store_class = _ForgetfulStore


class _DeafStore(Store):
    def learn(self, notices: Sequence[bytes]) -> int:
        return 0

    def drop(self, key: bytes) -> None:
        super().learn([tombstone(key)])


class UnmergedTombstones(Agent):
    """Remembers what was dropped here and does not listen to others."""

    store_class = _DeafStore


class EarlyAcknowledgement(Agent):
    """Acknowledges a put before the owners after it have stored it."""

    def _put_onward(self, reply: object, pending: tuple[NetworkCall, Writer]) -> None:
        call, writer = pending
        if reply is None:
            self._commit(call, writer)
        else:
            super()._put_onward(reply, pending)


class _BottomlessStore(Store):
    def create(self, *wanted: Any, **options: Any) -> Writer:
        capacity, self.capacity = self.capacity, 10**9
        try:
            return super().create(*wanted, **options)
        finally:
            self.capacity = capacity


class NoLimit(Agent):
    """Stores more than it has room for."""

    store_class = _BottomlessStore


class _CarelessStore(Store):
    def move_aside(self, key: bytes, size: int, crc32c: int, aside: bytes) -> bool:
        if key in self.objects:
            self._index.evict(self.objects[key].indexed)
            self._removed(key, "moved")
        return True


class LostLoser(Agent):
    """Forgets what it has when it meets another version that wins."""

    store_class = _CarelessStore


class _StubbornStore(Store):
    def move_aside(self, key: bytes, size: int, crc32c: int, aside: bytes) -> bool:
        return False


class TwoWinners(Agent):
    """Keeps its own version of a key whatever others have."""

    store_class = _StubbornStore


class _RuthlessStore(Store):
    def _added(self, indexed: IndexedObject, content: bytes, header: bytes) -> None:
        super()._added(indexed, content, header)
        self._evictable[indexed.key] = indexed.held.size


class EvictsObjects(Agent):
    """Makes room for what comes at the expense of what can be had nowhere else."""

    store_class = _RuthlessStore


class _ObliviousStore(Store):
    def _evict(self, key: bytes) -> None:
        super()._evict(key)
        self._index.missed(key)


class NoGhosts(Agent):
    """Forgets what it evicts, so that its co-owners send it again."""

    store_class = _ObliviousStore


class _ShamelessStore(Store):
    def verify(self, key: bytes) -> bool:
        stored = self.objects.get(key)
        if stored is not None and crc32c(stored.whole) != stored.held.crc32c:
            self._index.evict(stored.indexed)
            self._removed(key, "lost")
        return key in self.objects


class DeniesLosses(Agent):
    """Says of what went bad here that it never was."""

    store_class = _ShamelessStore


class _FirstWriterStore(Store):
    def _raise_copies(self, existing: IndexedObject, copies: int, least: int) -> None:
        super()._raise_copies(existing, 0, 0)


class FirstWriterDecides(Agent):
    """Keeps to the number of copies that the first writer wanted."""

    store_class = _FirstWriterStore


class _BlindStore(Store):
    def create(self, *wanted: Any, **options: Any) -> Writer:
        if stored := self.objects.get(wanted[0]):
            options["header"] = stored.header
        return super().create(*wanted, **options)


class SameHeader(Agent):
    """Takes a put with another header for the one that it has."""

    store_class = _BlindStore


class FewerForEver(Agent):
    """Forgets that more copies are wanted than there were nodes."""

    def _put(self, call: NetworkCall) -> None:
        message = call.message
        if message.up_to and self.owners is not None:
            up_to = min(message.up_to, len(self.owners.members))
            call.message = msgspec.structs.replace(message, up_to=up_to)
        super()._put(call)


class NotAway(Agent):
    """Believes what it knew of files although it was taken for dead, and told nothing."""

    def _was_away(self) -> None:
        pass


class _UnmovedRestorer(Restorer):
    def _agree(self, ours: ObjectSummary, theirs: ObjectSummary) -> None:
        pass


class UnequalCopies(Agent):
    """Does not care that others want more copies of what it has."""

    restorer_class = _UnmovedRestorer


class _IdleRestorer(Restorer):
    def step(
        self, event: RestorationEvent, now: float, rng: Random
    ) -> list[RestorationInstruction]:
        return []


class NoRestoring(Agent):
    """Lets lost copies be lost."""

    restorer_class = _IdleRestorer


class NoTables(Agent):
    """Looks for the owners of every key on the ring."""

    tabled = False


class _HurriedRestorer(Restorer):
    def _due(self, held: ObjectSummary) -> float:
        return 0.0


class NoDelay(Agent):
    """Restores at once what is to wait."""

    restorer_class = _HurriedRestorer


class Chatter(Agent):
    """Talks to everybody in every period."""

    def _tick(self, _: object) -> None:
        super()._tick(_)
        for member in self.swim.view.live():
            self._probe(ProbeInstruction(0, member, None, [], 1.0))


class _EasySteps(ObjectSteps):
    def drop_below(self, prefix: bytes) -> Steps:
        yield RefreshStep()
        told = 0
        for member in self._routing.live:
            try:
                yield DropBelowStep(member)
                told += 1
            except FAILURES as error:
                yield from self._blame(member, prefix, error)
        if not told:
            raise Unavailable("nobody answered")


class _EasyClient(Client):
    steps_class = _EasySteps


class OneAnswer(Agent):
    """Has clients to whom one answer is enough when they drop versions."""

    client_class = _EasyClient


PLANTED: dict[str, type[Agent]] = {
    "no-fence": NoFence,
    "any-list": AnyList,
    "unconfirmed-trim": UnconfirmedTrim,
    "lost-tombstone": LostTombstone,
    "unmerged-tombstones": UnmergedTombstones,
    "early-acknowledgement": EarlyAcknowledgement,
    "no-limit": NoLimit,
    "lost-loser": LostLoser,
    "two-winners": TwoWinners,
    "evicts-objects": EvictsObjects,
    "no-ghosts": NoGhosts,
    "denies-losses": DeniesLosses,
    "first-writer-decides": FirstWriterDecides,
    "same-header": SameHeader,
    "fewer-for-ever": FewerForEver,
    "not-away": NotAway,
    "unequal-copies": UnequalCopies,
    "no-restoring": NoRestoring,
    "no-tables": NoTables,
    "no-delay": NoDelay,
    "chatter": Chatter,
    "one-answer": OneAnswer,
}
