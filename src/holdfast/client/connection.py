"""The agents of a session as a client reaches them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from .._core import choose_congestion_control
from ..config import Config
from ..errors import BadInput, HoldfastError, NoSession, TryAgain
from ..membership import view as views
from ..membership.key_spaces import KeySpace
from ..membership.view import Member
from ..placement.windows import Roster
from ..session.node import own_name
from .contacts import Contacts
from .events import line
from .fork_lock import fork_lock
from .messages import Doubt, ViewReply, ViewRequest
from .routing import Routing

#: A member that fails us is reported within this time or not at all, in seconds.
_DOUBT_WITHIN = 0.2
#: An error waits so long for its story, in seconds, and carries this many lines of it.
_STORY_WITHIN = 1.0
_STORY_LINES = 10


class Connection:
    """Connections of one client, and where to turn with a key. Safe for threads.

    `key_spaces` are those of the agents, for those who ask for other keys than those of files.
    """

    def __init__(
        self,
        directory: Path,
        config: Config,
        node: str = "",
        key_spaces: Sequence[KeySpace] = (),
    ) -> None:
        wanted = node or config.node
        choose_congestion_control(config.congestion)
        contacts = Contacts(directory, config.deadline)
        view = contacts.view(wanted or own_name())
        names = [member.node for member in view.live()]
        if not names:
            raise NoSession(f"session {directory.name!r} has no agents; start it again")
        # One whose agent died will do: others serve in its place, and it may be back.
        known = {*names, *(member.node for member in view.lost())}
        if wanted and wanted not in known:
            raise BadInput(
                f"there is no node {wanted!r} in this session; it has {', '.join(sorted(known))}"
            )
        here = [agent.member.node for agent in contacts.agents]
        own = next(name for name in (own_name(), *here, *names) if name in names)
        self.deadline = config.deadline
        self.put_retry_for = config.put_retry_for
        self.hand = config.hand
        self.client = contacts.client
        self.routing = Routing(
            view, contacts.session.virtual_nodes, wanted or own, here, config.avoid, key_spaces
        )
        self._merging = fork_lock()
        self._known = ViewRequest()

    @property
    def node(self) -> str:
        """The node that this client goes through."""
        return self.routing.node

    def refresh(self) -> bool:
        """Ask an agent for its view, the local one first; tells whether it changed who lives."""
        for member in self.routing.informants(time.monotonic()):
            try:
                return self._ask_view(member)
            except TryAgain:
                self.routing.avoid(member, time.monotonic())
        return False

    def _ask_view(self, member: Member) -> bool:
        answer = self.client.call(
            self.routing.address(member),
            "membership",
            "view",
            msgspec.msgpack.encode(self._known),
            deadline=self.deadline,
        )
        reply = msgspec.msgpack.decode(answer, type=ViewReply)
        with self._merging:
            self._known = ViewRequest(reply.member, reply.changes)
            changed = self.routing.merge(reply.entries)
            agreed = not reply.entries or self.routing.agrees(reply.entries)
        if not agreed:
            self.merge(member)
        return changed

    def know(self, roster: Roster) -> None:
        """See also who owns what lies in windows of `roster`; who has not heard of it is told."""
        with self._merging:
            self.routing.know(roster)

    def merge(self, member: Member) -> bool:
        """Exchange views with a member, and tell it our rosters.

        Tells whether our view changed who lives.
        """
        if rosters := self.routing.rosters:
            with contextlib.suppress(HoldfastError):
                message = msgspec.msgpack.encode([roster.encode() for roster in rosters])
                address = self.routing.address(member)
                self.client.call(address, "space", "learn", message, deadline=self.deadline)
        with contextlib.suppress(HoldfastError):
            with self._merging:
                message = msgspec.msgpack.encode(self.routing.entries())
            answer = self.client.call(
                self.routing.address(member), "membership", "join", message, deadline=self.deadline
            )
            with self._merging:
                return self.routing.merge(views.decode(answer))
        return False

    def doubt(self, member: Member, about: str = "", cause: str = "") -> None:
        """Tell an agent, the local one if it is not the one, that a member failed us."""
        now = time.monotonic()
        for agent in sorted(self.routing.live, key=lambda other: other.node != self.node):
            if agent.number != member.number and not self.routing.avoids(agent, now):
                with contextlib.suppress(HoldfastError):
                    self.client.call(
                        self.routing.address(agent),
                        "membership",
                        "doubt",
                        msgspec.msgpack.encode(Doubt(member.number, about, cause)),
                        deadline=_DOUBT_WITHIN,
                    )
                return

    def with_story(self, error: HoldfastError, about: str, owners: Sequence[Member]) -> None:
        """Let an error carry what agents remember of what it is about, if they say so at once."""
        from . import stories  # noqa: PLC0415 - only for those that fail

        end = time.monotonic() + _STORY_WITHIN
        names = [about]
        if isinstance(error, TryAgain):  # whose death may be the reason
            names += (member.node for member in self.routing.lost)
        own = [member for member in self.routing.live if member.node == self.node]
        told = []
        for member in dict.fromkeys([*own, *owners]):
            now = time.monotonic()
            if now < end and not self.routing.avoids(member, now):
                with contextlib.suppress(HoldfastError, *views.UNREADABLE):
                    address = self.routing.address(member)
                    told.append(stories.ask(self.client, address, names, end - now))
        error.story = tuple(map(line, stories.merge(told)[-_STORY_LINES:]))
        if error.story:  # tracebacks show these notes from Python 3.11 on
            vars(error)["__notes__"] = ["What the agents remember:", *error.story]
