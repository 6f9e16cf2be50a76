"""The story of a session: what its agents remember, as one list in the order of time."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence

import msgspec

from .._core import AgentClient
from ..errors import HoldfastError
from ..membership.view import UNREADABLE, Member
from .contacts import Contacts, at_once
from .events import Event

_REPLY = msgspec.msgpack.Decoder(list[Event])


def ask(client: AgentClient, address: str, names: Sequence[str], deadline: float) -> list[Event]:
    """Ask one agent for what it remembers about these keys, paths and nodes, or for all."""
    message = msgspec.msgpack.encode(names)
    return _REPLY.decode(client.call(address, "agent", "events", message, deadline=deadline))


def gather(contacts: Contacts, names: Sequence[str] = ()) -> tuple[list[Event], list[str]]:
    """Ask all agents; also returns the nodes that did not answer."""

    def tell(member: Member) -> list[Event] | None:
        try:
            return ask(contacts.client, contacts.address(member), names, contacts.deadline)
        except (HoldfastError, *UNREADABLE):
            return None

    told = at_once(tell, contacts.view().live())
    silent = [member.node for member, events in told if events is None]
    return merge(events for _, events in told if events is not None), silent


def merge(stories: Iterable[list[Event]]) -> list[Event]:
    """Put the stories of several nodes in the order of time, also where somebody sets a clock."""
    each = (sorted(story, key=lambda event: event.boot) for story in stories)
    return list(heapq.merge(*each, key=lambda event: event.time))
