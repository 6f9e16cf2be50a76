"""Requests to other members that are under way, and what to do with their answers."""

from __future__ import annotations

from collections.abc import Callable

from ..membership.view import Member
from .events import AskInstruction, MergeInstruction
from .messages import OtherView, Reply, Request


class OpenRequests:
    """Hands out tickets and keeps what is to be done with each answer."""

    def __init__(self) -> None:
        self._next = 0
        self._waiting: dict[int, tuple[Member, Callable[[Reply | None], None]]] = {}
        self.instructions: list[AskInstruction | MergeInstruction] = []
        self.now = 0.0  # when the event happened that is being taken

    def ticket(self) -> int:
        """Return a number that no other request of this member has."""
        self._next += 1
        return self._next

    def __call__(
        self, member: Member, request: Request, then: Callable[[Reply | None], None]
    ) -> None:
        """Send a request; `then` gets the answer, or None if there is none."""
        ticket = self.ticket()
        self._waiting[ticket] = member, then
        self.instructions.append(AskInstruction(ticket, member, request))

    def answered(self, ticket: int, reply: Reply | None) -> None:
        """Pass an answer on; a member with another view is one to merge with."""
        member, then = self._waiting.pop(ticket, (None, None))
        if member is None or then is None:
            return
        if isinstance(reply, OtherView):
            self.instructions.append(MergeInstruction(member))
            reply = None
        try:
            then(reply)
        except Exception:  # what waits for the answer must not wait for ever
            then(None)
            raise
