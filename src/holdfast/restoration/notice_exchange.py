"""Rule 9: every member learns every notice; what is known merges.

A notice says what none may forget: a key, or versions, that were dropped, a path that changed, a
refresh, a roster (native/store/notices.hpp). Here it is bytes to be passed on; only rosters are
read, as who owns what follows from them.

News is passed on to random members a few times; a member that hears none compares now and then all
the same, so that members that were cut off catch up.
"""

from __future__ import annotations

import contextlib
import math
import random
from collections.abc import Sequence

from ..errors import BadInput
from ..membership.view import Member
from ..placement.windows import Roster
from .holdings import NOTICE_BUCKETS, ROSTER, Digest, Holdings
from .messages import (
    ComparedNotices,
    CompareNotices,
    ExchangedNotices,
    ExchangeNotices,
    Reply,
)
from .open_requests import OpenRequests
from .portions import PortionBounds, first, portions

#: Ticks between comparisons without news.
_IDLE = 4
#: About how many notices are listed in one message.
_LISTED = 2048


class NoticeExchange:
    """What we have heard of, and whom we told."""

    def __init__(self, holdings: Holdings, ask: OpenRequests) -> None:
        self._holdings = holdings
        self._ask = ask
        self._known: Digest = (0, 0)
        self._to_tell = 0
        self._ticks = 0
        #: Those heard of; another tuple when there is a new one.
        self.rosters: tuple[Roster, ...] = ()

    def tick(self, others: Sequence[Member], rng: random.Random) -> None:
        """Compare with a random member if there is news, or it is time."""
        digest = self._holdings.notice_digest()
        if digest != self._known:
            self._known = digest
            self._to_tell = 2 * math.ceil(math.log2(len(others) + 2))
        self._ticks += 1
        if not others or (not self._to_tell and self._ticks % _IDLE):
            return
        self._to_tell = max(0, self._to_tell - 1)
        member = rng.choice(others)
        self._ask(member, CompareNotices(digest), lambda reply: self._compared(member, reply))

    @property
    def has_news(self) -> bool:
        """Whether there are notices to tell others of."""
        return self._to_tell > 0

    def compare_with(self, member: Member) -> None:
        """Compare with a member that may have missed some: it is new, or back."""
        digest = self._holdings.notice_digest()
        self._ask(member, CompareNotices(digest), lambda reply: self._compared(member, reply))

    def learn(self, notices: Sequence[bytes]) -> None:
        """Take in what others, or our clients, have heard of."""
        self._holdings.learn(notices)
        for notice in notices:
            if notice.startswith(ROSTER):
                with contextlib.suppress(BadInput):  # of another version: passed on, and not used
                    roster = Roster.decode(notice[len(ROSTER) :])
                    if roster not in self.rosters:
                        self.rosters += (roster,)

    def _compared(self, member: Member, reply: Reply | None) -> None:
        if not isinstance(reply, ComparedNotices) or not reply.buckets:
            return
        mine = self._holdings.notice_buckets()
        differing = [i for i, theirs in enumerate(reply.buckets) if mine[i] != theirs]
        count = max(self._holdings.notice_digest()[0], reply.count)
        self._exchange(member, differing, max(1, _LISTED // (count // NOTICE_BUCKETS + 1)))

    def _exchange(self, member: Member, buckets: list[int], at_a_time: int) -> None:
        if not buckets:
            return
        now, later = buckets[:at_a_time], buckets[at_a_time:]

        def go_on(left: list[tuple[PortionBounds, list[bytes]]]) -> None:
            if not left:
                self._exchange(member, later, at_a_time)
                return
            (bounds, notices), *more = left

            def answered(reply: Reply | None) -> None:
                if isinstance(reply, ExchangedNotices):
                    self.learn(reply.notices)
                    go_on(more)

            self._ask(member, ExchangeNotices(now, notices, bounds), answered)

        go_on(portions(self._holdings.notices_in(now), bytes))

    def compare(self, request: CompareNotices) -> ComparedNotices:
        """Answer another member's `CompareNotices`."""
        digest = self._holdings.notice_digest()
        if digest == request.digest:
            return ComparedNotices()
        return ComparedNotices(self._holdings.notice_buckets(), digest[0])

    def exchange(self, request: ExchangeNotices) -> ExchangedNotices:
        """Answer another member's `ExchangeNotices`."""
        ours = set(self._holdings.notices_in(request.buckets)).difference(request.notices)
        self.learn(request.notices)
        return ExchangedNotices(first((one for one in ours if one in request.bounds), bytes))
