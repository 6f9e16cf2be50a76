"""The agent's own service: its status, its view, its end."""

from __future__ import annotations

import os
from collections.abc import Callable

import msgspec

from .. import _core
from ..cluster.messages import AgentStatus, FileStatus, ViewReply, ViewRequest
from ..errors import BadInput
from ..membership import view
from .members import Members

_decode = msgspec.msgpack.decode


class Control:
    """Answers `status`, `view`, `join`, `doubt` and `stop`."""

    name = "agent"

    def __init__(self, core: _core.Agent, members: Members, stop: Callable[[], None]) -> None:
        self._core = core
        self._members = members
        self._stop = stop

    def handle(self, method: str, message: bytes) -> bytes:
        """Answer one call."""
        if method == "status":
            return msgspec.msgpack.encode(self.status())
        if method == "view":
            return msgspec.msgpack.encode(self._view(_decode(message, type=ViewRequest)))
        if method == "join":
            self._members.join(view.read(message))
            return self._members.view.encode()
        if method == "doubt":
            self._members.doubt(_decode(message, type=int))
            return b""
        if method == "stop":
            self._stop()
            return b""
        raise BadInput(f"the agent has no method {method!r}")

    def _view(self, known: ViewRequest) -> ViewReply:
        number, changes = self._members.me.number, self._members.changes
        same = known == ViewRequest(number, changes)
        return ViewReply(number, changes, [] if same else self._members.view.entries())

    def status(self) -> AgentStatus:
        """Tell all that is shown of this agent."""
        members = self._members
        return AgentStatus(
            members.me.node,
            members.me.number,
            os.getpid(),
            self._core.tiers(),
            self._core.counters() | members.trouble.counters,
            members.restore_status(),
            members.view.identity,
            members.detection(),
            members.settings.restore_rate,
            FileStatus(*self._core.files()),
            members.view.states(),
            members.incarnation,
        )
