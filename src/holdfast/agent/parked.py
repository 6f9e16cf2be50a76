"""Calls that a service answers later, without a thread, and how long they may wait."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from typing import Protocol

from ..errors import DeadlineMissed, HoldfastError

#: How many deadlines of calls that have ended may stand among those that wait, or as many as wait.
_MOST_OVER = 64


class Answering(Protocol):
    """The part of the core that takes answers."""

    def answer(self, call: int, message: bytes) -> None:
        """Answer a call."""
        ...

    def fail(self, call: int, code: str, message: str) -> None:
        """Answer a call with an error, by its name."""
        ...


class Parked:
    """What a service returns for a call that it answers later, from any thread.

    When nobody waits for it any more, because its caller has gone or its time is over, `cancelled`
    is true and `on_cancel` is called, by the agent's loop.
    """

    __slots__ = ("_at", "_on_cancel", "_outcome", "cancelled")

    def __init__(self, on_cancel: Callable[[], object] | None = None) -> None:
        self.cancelled = False
        self._on_cancel = on_cancel
        self._outcome: bytes | HoldfastError | None = None
        self._at: tuple[ParkedCalls, Answering, int] | None = None  # where, once it is known

    def answer(self, message: bytes) -> None:
        """Give the answer."""
        self._end(message)

    def fail(self, error: HoldfastError) -> None:
        """Refuse the call."""
        self._end(error)

    def _end(self, outcome: object) -> None:
        if not isinstance(outcome, bytes | HoldfastError):
            outcome = HoldfastError(f"the service answered with {outcome!r}, which is not bytes")
        self._outcome = outcome
        if self._at is not None:
            self._deliver()

    def _deliver(self) -> None:
        # Both sides may come here, from two threads: one of them takes it out.
        assert self._at is not None
        calls, core, number = self._at
        if calls.take_out(number) is None:
            return
        if isinstance(self._outcome, bytes):
            core.answer(number, self._outcome)
        else:
            refuse(core, number, type(self._outcome).__name__, str(self._outcome))

    def park(self, calls: ParkedCalls, core: Answering, number: int) -> None:
        """Learn which call it is; an answer may have come before."""
        self._at = calls, core, number
        if self._outcome is not None:
            self._deliver()

    def give_up(self) -> None:
        """Tell the service that nobody waits, unless it has answered."""
        self.cancelled = True
        if self._on_cancel is not None and self._outcome is None:
            self._on_cancel()


class ParkedCalls:
    """The parked calls of an agent, and when their time is over. For the agent's loop."""

    def __init__(self) -> None:
        self._parked: dict[int, tuple[Parked, Answering]] = {}
        self._deadlines: list[tuple[float, int]] = []  # a heap; some are over

    def __len__(self) -> int:
        return len(self._parked)

    def add(self, core: Answering, number: int, parked: Parked, deadline: float) -> None:
        """Keep a call until it is answered, cancelled, or at its deadline."""
        if len(self._deadlines) > 2 * len(self._parked) + _MOST_OVER:
            self._deadlines = [one for one in self._deadlines if one[1] in self._parked]
            heapq.heapify(self._deadlines)
        self._parked[number] = parked, core
        heapq.heappush(self._deadlines, (deadline, number))
        parked.park(self, core, number)

    def take_out(self, number: int) -> tuple[Parked, Answering] | None:
        """Forget a call; for whoever ends it, from any thread, and only one of them gets it."""
        return self._parked.pop(number, None)

    def cancel(self, number: int) -> None:
        """Its caller has gone."""
        if (entry := self.take_out(number)) is not None:
            entry[0].give_up()

    def until_due(self, now: float) -> float:
        """Return the seconds until `expire` is to be called."""
        return max(0.0, self._deadlines[0][0] - now) if self._deadlines else math.inf

    def expire(self, now: float) -> None:
        """Answer those whose time is over."""
        while self._deadlines and self._deadlines[0][0] <= now:
            _, number = heapq.heappop(self._deadlines)
            if (entry := self.take_out(number)) is None:
                continue
            parked, core = entry
            core.fail(number, DeadlineMissed.__name__, "no answer before the deadline")
            parked.give_up()


def refuse(core: Answering, number: int, kind: str, reason: str) -> None:
    """Answer a call with an error, whatever is in its text."""
    core.fail(number, kind, reason.encode(errors="backslashreplace").decode())
