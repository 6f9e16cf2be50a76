"""The agent's own service: its status, its view, its end."""

from __future__ import annotations

import os
from collections.abc import Callable

import msgspec

from .. import _core
from ..errors import BadInput
from ..membership import view
from ..membership.view import Entry, Member, State, View


class AgentStatus(msgspec.Struct, frozen=True):
    """What `holdfast status` shows of one agent."""

    node: str
    number: int
    pid: int
    tiers: dict[str, dict[str, int]]
    counters: dict[str, int]


class Control:
    """Answers `status`, `view`, `join` and `stop`."""

    name = "agent"

    def __init__(self, member: Member, core: _core.Agent, stop: Callable[[], None]) -> None:
        self._member = member
        self._core = core
        self._stop = stop
        self.view = View([Entry(member, 0, State.ALIVE)])
        self.joined = False  # nobody needs an agent that knows no session

    def handle(self, method: str, message: bytes) -> bytes:
        """Answer one call."""
        if method == "status":
            return msgspec.msgpack.encode(self._status())
        if method == "view":
            known = msgspec.msgpack.decode(message, type=int) if message else 0
            return b"" if known == self.view.identity else self.view.encode()
        if method == "join":
            self.view.merge(view.decode(message))
            self.joined = True
            return self.view.encode()
        if method == "stop":
            self._stop()
            return b""
        raise BadInput(f"the agent has no method {method!r}")

    def _status(self) -> AgentStatus:
        return AgentStatus(
            self._member.node,
            self._member.number,
            os.getpid(),
            self._core.tiers(),
            self._core.counters(),
        )
