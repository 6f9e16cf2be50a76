"""Rule 8: a copy that its holder does not own goes only when all owners have confirmed theirs.

They are asked in one round and under one view: a word from yesterday, or from a member that owned
the object yesterday, counts for nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ..membership.owners import Owners
from .holdings import Holdings, ObjectSummary
from .messages import Confirm, Confirmed, Reply
from .open_requests import OpenRequests

#: How many strays are offered in one round.
_ROUND = 512
#: A round counts for this many seconds. One that ends later was held up, perhaps because we were
#: stopped, and who confirmed in it may be dead without our having heard of it.
_FRESH = 5.0


class Trimmer:
    """Goes through our strays, round after round."""

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
        self._round = 0
        self._after = b""  # where the next round begins
        self._running = False
        self.trimmed = 0

    def use(self) -> None:
        """Other owners: what was confirmed by the old ones counts for nothing."""
        self._round += 1
        self._running = False
        self._after = b""

    def tick(self, owners: Owners, now: float) -> None:
        """Begin a round if none runs."""
        if self._running:
            return
        strays = self._holdings.strays(_ROUND, self._after)
        self._after = strays[-1].key if strays else b""
        by_owner: dict[int, list[ObjectSummary]] = {}
        unconfirmed: set[bytes] = set()
        for held in strays:
            members = owners.of(held.key, held.copies)
            if not members:  # of a roster that we have not heard of: nobody can confirm it
                unconfirmed.add(held.key)
            for member in members:
                by_owner.setdefault(member.number, []).append(held)
        if not by_owner:
            return
        self._round += 1
        self._running = True
        number, waiting = self._round, set(by_owner)

        def answered(owner: int, reply: Reply | None) -> None:
            if isinstance(reply, Confirmed):
                for theirs in reply.other:
                    self._meet(theirs, owner)
            if number != self._round:
                return
            confirmed = reply.keys if isinstance(reply, Confirmed) else ()
            unconfirmed.update({held.key for held in by_owner[owner]}.difference(confirmed))
            waiting.discard(owner)
            if waiting:
                return
            self._running = False
            if self._ask.now > now + _FRESH:
                return
            for held in strays:
                if held.key not in unconfirmed:
                    self.trimmed += self._holdings.trim(held.key, held.size, held.crc32c)

        for owner, offered in by_owner.items():
            self._ask(
                owners.members[owner],
                Confirm(owners.identity, self._me, offered),
                partial(answered, owner),
            )
