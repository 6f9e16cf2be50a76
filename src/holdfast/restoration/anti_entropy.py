"""Anti-entropy (rule 8): co-owners compare digests of what both own, until all pairs are equal.

Correctness rests on this alone. An object that one of two co-owners lacks makes their digests
differ, for whatever reason it is missing: a death, a new member, a bad copy, a put cut off. Pairs
that were found equal are still compared now and then.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

from ..membership.owners import Owners
from .holdings import BUCKETS, Digest, Holdings, ObjectSummary
from .messages import Compare, Compared, Exchange, Exchanged, Reply
from .open_requests import OpenRequests
from .portions import PortionBounds, first, portions

#: How many pairs are compared at a time after a change of view; later one is begun in a tick.
_EAGER = 8
#: Ticks between comparisons of pairs that are believed to be equal. Only one side may know that
#: they are not: who was declared dead by mistake, and the other lost all that both had meanwhile.
_IDLE = 4
#: About how many objects are listed in one message.
_LISTED = 2048
_NOTHING: Digest = (0, 0)


class AntiEntropy:
    """Our half of all pairs that we are part of."""

    def __init__(
        self,
        me: int,
        holdings: Holdings,
        ask: OpenRequests,
        meet: Callable[[ObjectSummary, int], ObjectSummary | None],
    ) -> None:
        self._me = me
        self._holdings = holdings
        self._ask = ask
        self._meet = meet
        self._owners: Owners | None = None
        self._agreed: dict[int, Digest] = {}  # the digest that was the same on both sides
        self._fresh: list[tuple[int, Digest]] = []  # to be compared under these owners
        self._busy: set[int] = set()  # being compared with under these owners
        self._met: set[int] = set()  # compared to the end under these owners, equal or not
        self._ticks = 0

    def use(self, owners: Owners, rng: random.Random) -> None:
        """Begin anew under other owners."""
        self._owners = owners
        self._agreed.clear()
        self._met.clear()
        self._busy.clear()
        self._fresh = list(self._holdings.survey().items())
        rng.shuffle(self._fresh)
        self.go_on()

    def uncompared_peers(self) -> int:
        """Count the members with whom we have not compared since the view changed."""
        return len(self._holdings.survey().keys() - self._met)

    @property
    def has_more(self) -> bool:
        """Whether there are members left to compare with."""
        return bool(self._fresh)

    def unequal(self) -> dict[int, Digest]:
        """Return our digests of the pairs that are not known to be equal."""
        # Who lost all that it shared with another has nothing to survey, but still to compare.
        ours = dict.fromkeys(self._agreed, _NOTHING) | self._holdings.survey()
        return {peer: digest for peer, digest in ours.items() if self._agreed.get(peer) != digest}

    def tick(self, rng: random.Random) -> None:
        """Compare with some members."""
        if self._owners is None:
            return
        self._ticks += 1
        unequal = [item for item in self.unequal().items() if item[0] not in self._busy]
        rng.shuffle(unequal)
        self._fresh = [item for item in unequal if item[0] not in self._agreed]
        # Both kinds: some pairs never agree, where a store is full.
        chosen = [item for item in unequal if item[0] in self._agreed][:1]
        if self._ticks % _IDLE == 0:
            busy = self._busy.union(peer for peer, _ in chosen)
            equal = [item for item in self._agreed.items() if item[0] not in busy]
            chosen += rng.sample(equal, min(1, len(equal)))
        for peer, digest in chosen:
            self._compare(peer, digest)
        self.go_on()

    def go_on(self) -> None:
        """Compare with more of those that we have not compared with under these owners."""
        while self._fresh and len(self._busy) < _EAGER:
            peer, digest = self._fresh.pop()
            if peer not in self._busy and peer not in self._agreed:
                self._compare(peer, digest)

    def _compare(self, peer: int, digest: Digest) -> None:
        owners = self._owners
        assert owners is not None
        self._busy.add(peer)
        self._ask(
            owners.members[peer],
            Compare(owners.identity, self._me, digest),
            partial(self._compared, owners, peer, digest),
        )

    def _compared(self, owners: Owners, peer: int, digest: Digest, reply: Reply | None) -> None:
        if owners is not self._owners:
            return  # an answer to the view before says nothing about what both own now
        self._busy.discard(peer)
        if not isinstance(reply, Compared):
            return
        if not reply.buckets:
            self._agreed[peer] = digest
            self._met.add(peer)
            return
        mine = self._holdings.buckets_with(peer)
        differing = [i for i, theirs in enumerate(reply.buckets) if mine[i] != theirs]
        at_a_time = max(1, _LISTED // (max(digest[0], reply.count) // BUCKETS + 1))
        self._busy.add(peer)
        self._exchange(owners, peer, differing, at_a_time)

    def _exchange(self, owners: Owners, peer: int, buckets: list[int], at_a_time: int) -> None:
        """List what we hold in some parts, and go on with the rest when the answer is there."""
        if owners is not self._owners:
            return
        if not buckets:
            self._busy.discard(peer)
            self._met.add(peer)
            return
        now, later = buckets[:at_a_time], buckets[at_a_time:]

        def go_on(left: list[tuple[PortionBounds, list[ObjectSummary]]]) -> None:
            if not left or owners is not self._owners:
                self._exchange(owners, peer, later, at_a_time)
                return
            (bounds, held), *more = left

            def answered(reply: Reply | None) -> None:
                if not isinstance(reply, Exchanged):
                    if owners is self._owners:
                        self._busy.discard(peer)
                    return
                for theirs in reply.held:
                    self._meet(theirs, peer)
                go_on(more)

            request = Exchange(owners.identity, self._me, now, held, bounds)
            self._ask(owners.members[peer], request, answered)

        go_on(portions(self._holdings.held_with(peer, now), _key))

    def compare(self, request: Compare) -> Compared:
        """Answer another member's `Compare`."""
        ours = self._holdings.survey().get(request.sender, _NOTHING)
        if ours == request.digest:
            self._agreed[request.sender] = ours
            self._met.add(request.sender)
            return Compared()
        return Compared(self._holdings.buckets_with(request.sender), ours[0])

    def exchange(self, request: Exchange) -> Exchanged:
        """Answer another member's `Exchange`."""
        listed = self._holdings.held_with(request.sender, request.buckets)
        ours = {held.key: held for held in listed if held.key in request.bounds}
        for theirs in request.held:
            ours.pop(theirs.key, None)
            if (mine := self._meet(theirs, request.sender)) is not None:
                ours[theirs.key] = mine
        return Exchanged(first(ours.values(), _key))


def _key(held: ObjectSummary) -> bytes:
    return held.key
