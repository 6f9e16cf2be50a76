"""The core of one agent as its services use it: requests with callbacks, and events by their kind.

Nothing here waits. A request ends in its callback, which the loop calls, never the request itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from .. import _core
from ..config import Config
from ..membership.view import Member
from .story import Story
from .trouble import Trouble
from .workers import Workers

E = TypeVar("E")

#: How a request may end, beside what it was made for.
Replied = _core.ReplyEvent | _core.FailedEvent
Probed = _core.AnsweredEvent | _core.FailedEvent
Pulled = _core.PulledEvent | _core.FailedEvent


class Shell:
    """Owns the tickets of requests to other agents, and hands events of the core to services."""

    def __init__(self, core: _core.Agent, member: Member, config: Config, story: Story) -> None:
        self.core = core
        self.member = member
        self.config = config
        self.story = story
        self.trouble = Trouble()
        self.workers = Workers(self.trouble)
        self._last_ticket = 0
        self._waiting: dict[int, Callable[[Any], None]] = {}  # by ticket
        self._unsent: list[_core.FailedEvent] = []  # requests that the core did not take
        self._takers: dict[type, Callable[[Any], None]] = {}

    def on(self, kind: type[E], take: Callable[[E], None]) -> None:
        """Let `take` have the events of one kind that no request waits for."""
        self._takers[kind] = take

    def take_events(self) -> None:
        """Hand on all that the core has to tell; a failure with one event is nothing to others."""
        while (event := self.core.next_event()) is not None:
            self._hand_on(event)
        while self._unsent:
            self._hand_on(self._unsent.pop())

    def _hand_on(self, event: Any) -> None:
        ticket = getattr(event, "ticket", None)
        take = self._takers.get(type(event)) if ticket is None else self._waiting.pop(ticket)
        if take is None:
            return
        try:
            take(event)
        except Exception as error:
            self.trouble.failure(f"handling a {type(event).__name__}", error)

    @property
    def waits(self) -> bool:
        """Whether requests of ours are under way."""
        return bool(self._waiting)

    def ask(
        self,
        member: Member,
        service: str,
        method: str,
        message: bytes,
        then: Callable[[Replied], None],
    ) -> None:
        """Call a service of another agent."""
        deadline = self.config.deadline
        self._begin(
            then,
            lambda t: self.core.ask(
                t,
                member.address,
                service=service,
                method=method,
                message=message,
                deadline=deadline,
            ),
        )

    def probe(
        self,
        member: Member,
        via: Member | None,
        news: bytes,
        deadline: float,
        then: Callable[[Probed], None],
    ) -> None:
        """Probe another agent, perhaps through a third one."""
        helper = via.address if via else ""
        self._begin(
            then,
            lambda t: self.core.probe(
                t,
                member.address,
                via=helper,
                news=news,
                deadline=deadline,
                member=member.number,
            ),
        )

    def pull(
        self, key: bytes, tier: _core.Tier, source: Member, then: Callable[[Pulled], None]
    ) -> None:
        """Copy an object from another agent."""
        deadline = self.config.deadline
        self._begin(then, lambda t: self.core.pull(t, key, source.address, tier, deadline))

    def refuse(self, why: str, then: Callable[[_core.FailedEvent], None]) -> None:
        """Let a request that nobody can carry out fail like one that the core did not take."""

        def request(_: int) -> None:
            raise NotImplementedError(why)

        self._begin(then, request)

    def _begin(self, then: Callable[[Any], None], request: Callable[[int], None]) -> None:
        """Begin a request under a new ticket; `then` is called in any case, and never at once."""
        self._last_ticket += 1
        ticket = self._last_ticket
        self._waiting[ticket] = then
        try:
            request(ticket)
        except Exception as error:
            self._unsent.append(_core.FailedEvent(ticket, "HoldfastError", repr(error)))
            self.trouble.failure("a request to another member", error)
